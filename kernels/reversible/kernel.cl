/* The reversible product of reversible.py for OpenCL: one work-item a slice (see segments.cl).

   Each slice has a part of `memory` for its counters, and for each query a segment of the output,
   of which `cursor` says where the next row goes. */

/* Where counts may pass 2^64 a counter is two numbers, the low one first. */
#if WIDE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef ulong2 number;
static void add(global number *into, number of) {
  ulong2 is = *into;
  is.x += of.x;
  is.y += of.y + (is.x < of.x);
  *into = is;
}
static void subtract(global number *into, number of) {
  ulong2 is = *into;
  is.y -= of.y + (is.x < of.x);
  is.x -= of.x;
  *into = is;
}
#else
typedef ulong number;
static void add(global number *into, number of) { *into += of; }
static void subtract(global number *into, number of) { *into -= of; }
#endif

typedef struct {
  global const uint *at;   /* pointers by letter and level */
  global const uint2 *rows; /* the counter that changes, the one that is added to it */
} steps;

static void multiply(global number *counts, long first, long behind, global const long *move_letter,
                     int levels, steps by) {
  if (behind - first == 1) {
    long k = move_letter[first] * levels;
    for (uint i = by.at[k], end = by.at[k + levels]; i < end; i++)
      add(counts + by.rows[i].x, counts[by.rows[i].y]);
    return;
  }
  /* The events of one time go through the levels side by side. */
  for (int level = 0; level < levels; level++)
    for (long e = first; e < behind; e++) {
      long k = move_letter[e] * levels + level;
      for (uint i = by.at[k], end = by.at[k + 1]; i < end; i++)
        add(counts + by.rows[i].x, counts[by.rows[i].y]);
    }
}

static void divide(global number *counts, long first, long behind, global const long *move_letter,
                   int levels, steps by) {
  if (behind - first == 1) {
    long k = move_letter[first] * levels;
    for (uint i = by.at[k], end = by.at[k + levels]; i < end; i++)
      subtract(counts + by.rows[i].x, counts[by.rows[i].y]);
    return;
  }
  for (int level = 0; level < levels; level++)
    for (long e = first; e < behind; e++) {
      long k = move_letter[e] * levels + level;
      for (uint i = by.at[k], end = by.at[k + 1]; i < end; i++)
        subtract(counts + by.rows[i].x, counts[by.rows[i].y]);
    }
}

/* A query's row, if its window has a match. */
static void read(int q, long g, long boundary, int sliding, global const number *counts,
                 global const uint *final, global const uint *finals, global long *cursor,
                 global long *out_group, global long *out_boundary, global ulong *out_counts,
                 global double *out_approximate) {
  ulong count = 0, high = 0;
  for (uint k = final[q]; k < final[q + 1]; k++) {
#if WIDE
    count += counts[finals[k]].x;
    high += counts[finals[k]].y + (count < counts[finals[k]].x);
#else
    count += counts[finals[k]];
#endif
  }
  if (count == 0 && high == 0) return;
  long row = cursor[q]++;
  out_group[row] = g;
  out_counts[row] = count;
  if (sliding) out_boundary[row] = boundary;
#if WIDE
  out_approximate[row] = (double)count + 18446744073709551616.0 * (double)high;
#endif
}

kernel void slide_reversible(
    int slices, global const slice *restrict slice_of, int queries,
    global const long *restrict position, global const long *restrict event,
    global const long *restrict move_letter, global const ulong *restrict start, int counters,
    int levels, global const uint *restrict arrive, global const uint2 *restrict arrive_rows,
    global const uint *restrict leave, global const uint2 *restrict leave_rows,
    global const uint *restrict trigger, global const uint *restrict triggers,
    global const uint *restrict final, global const uint *restrict finals, long width,
    long slide_by, global ulong *restrict memory, long size, global long *restrict cursor,
    global long *restrict out_group, global long *restrict out_boundary,
    global ulong *restrict out_counts, global double *restrict out_approximate) {
  int s = get_global_id(0);
  if (s >= slices) return;
  slice mine = slice_of[s];
  steps arriving = {arrive, arrive_rows}, leaving = {leave, leave_rows};
  global number *counts = (global number *)(memory + (long)s * size);
  global long *stamp = (global long *)(counts + counters);
  cursor += (long)s * queries;
  for (int i = 0; i < counters; i++)
#if WIDE
    counts[i] = (ulong2)(start[i], 0);
#else
    counts[i] = start[i];
#endif
  for (int q = 0; q < queries; q++) stamp[q] = -1;
  long head = mine.first, g = mine.first;
  if (slide_by == 0) {
    for (; g < mine.fresh; g++)
      multiply(counts, event[g], event[g + 1], move_letter, levels, arriving);
    for (; g < mine.last; g++) {
      long first = event[g], behind = event[g + 1], low = position[g] - width;
      for (; head < g && position[head] <= low; head++)
        divide(counts, event[head], event[head + 1], move_letter, levels, leaving);
      multiply(counts, first, behind, move_letter, levels, arriving);
      for (long e = first; e < behind; e++)
        for (uint t = trigger[move_letter[e]]; t < trigger[move_letter[e] + 1]; t++) {
          uint q = triggers[t];
          if (behind - first > 1) {
            if (stamp[q] == g) continue;
            stamp[q] = g;
          }
          read(q, g, 0, 0, counts, final, finals, cursor, out_group, out_boundary, out_counts,
               out_approximate);
        }
    }
    return;
  }
  if (mine.first == mine.last) return;
  long boundary = up(max(position[mine.first], mine.since + 1), slide_by);
  while (boundary <= mine.limit) {
    for (; g < mine.last && position[g] <= boundary; g++)
      multiply(counts, event[g], event[g + 1], move_letter, levels, arriving);
    for (; head < g && position[head] <= boundary - width; head++)
      divide(counts, event[head], event[head + 1], move_letter, levels, leaving);
    if (head == g) {
      if (g == mine.last) return;
      boundary = up(position[g], slide_by);
      continue;
    }
    for (int q = 0; q < queries; q++)
      read(q, g - 1, boundary, 1, counts, final, finals, cursor, out_group, out_boundary,
           out_counts, out_approximate);
    boundary += slide_by;
  }
}
