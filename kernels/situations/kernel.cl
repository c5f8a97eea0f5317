/* Situations and pairs of them for OpenCL: a work-item takes rows from `step` times its number on,
   `step` of them. `found` has for each item how many it finds, or where those begin. */

#define BY_GAP -1
#define ONGOING -2
#define FOREVER (1L << 62)

/* The last of `count` ascending offsets that is at most `row`. */
long part_of(global const long *restrict offsets, long count, long row) {
  long low = 0, high = count;
  while (high - low > 1) {
    long middle = (low + high) / 2;
    if (offsets[middle] <= row) low = middle; else high = middle;
  }
  return low;
}

long first_at_least(global const long *restrict values, long low, long high, long bound) {
  while (low < high) {
    long middle = (low + high) / 2;
    if (values[middle] < bound) low = middle + 1; else high = middle;
  }
  return low;
}

/* A situation is found by the item that has its first moment. `starts` has `partitions` entries,
   and one behind them. */
kernel void derive_runs(int items, long step, long rows, global const long *restrict starts,
                        long partitions, global const long *restrict ticks,
                        global const uchar *restrict holds, long gap, int fills,
                        global long *restrict found, global long *restrict partition,
                        global long *restrict first, global long *restrict last,
                        global long *restrict ended) {
  if (get_global_id(0) >= items) return;
  long number = fills ? found[get_global_id(0)] : 0;
  long row = get_global_id(0) * step, stop = min(rows, row + step);
  long p = part_of(starts, partitions, row);
  for (; row < stop; row++) {
    while (row >= starts[p + 1]) p++;
    if (!holds[row]) continue;
    int goes_on = row > starts[p] && holds[row - 1];
    if (goes_on && (gap < 0 || ticks[row] - ticks[row - 1] <= gap)) continue;
    if (fills) {
      long end = starts[p + 1], behind = row + 1;
      int silent = 0;
      for (; behind < end; behind++) {
        silent = gap >= 0 && ticks[behind] - ticks[behind - 1] > gap;
        if (silent || !holds[behind]) break;
      }
      partition[number] = p;
      first[number] = row;
      last[number] = behind;
      if (behind == end) ended[number] = gap >= 0 ? BY_GAP : ONGOING;
      else ended[number] = silent ? BY_GAP : behind;
    }
    number++;
  }
  if (!fills) found[get_global_id(0)] = number;
}

int relation(long s, long e, long t, long f) {
  if (e == FOREVER && f == FOREVER) return s < t ? 13 : (s == t ? 14 : 15);
  if (e <= t) return e < t ? 0 : 1;
  if (f <= s) return f < s ? 12 : 11;
  int by_end = e < f ? 0 : (e == f ? 1 : 2);
  return (s < t ? 2 : (s == t ? 5 : 8)) + by_end;
}

/* The situations that one can be tried with are a stretch of the others of its partition. */
kernel void related_pairs(int items, long step, long partitions,
                          global const long *restrict offsets,
                          global const long *restrict other_offsets,
                          global const long *restrict start, global const long *restrict end,
                          global const long *restrict tick, global const long *restrict other,
                          global const long *restrict other_end,
                          global const long *restrict other_tick, int bits, long width, int fills,
                          global long *restrict found, global long *restrict left,
                          global long *restrict right, global uchar *restrict codes) {
  if (get_global_id(0) >= items) return;
  long number = fills ? found[get_global_id(0)] : 0;
  long a = offsets[0] + get_global_id(0) * step, stop = min(offsets[partitions], a + step);
  long p = part_of(offsets, partitions, a);
  for (; a < stop; a++) {
    while (a >= offsets[p + 1]) p++;
    long low = other_offsets[p], high = other_offsets[p + 1];
    low = first_at_least(other_tick, low, high, tick[a] - width + 1);
    high = first_at_least(other_tick, low, high, tick[a] + width);
    if (!(bits >> 12 & 1)) low = first_at_least(other_end, low, high, start[a]);
    if (!(bits & 1)) high = first_at_least(other, low, high, end[a] + 1);
    for (long b = low; b < high; b++) {
      int code = relation(start[a], end[a], other[b], other_end[b]);
      if (!(bits >> code & 1)) continue;
      if (fills) {
        left[number] = a;
        right[number] = b;
        codes[number] = code;
      }
      number++;
    }
  }
  if (!fills) found[get_global_id(0)] = number;
}
