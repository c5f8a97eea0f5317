/* What the OpenCL kernels have in common: slices of runs, and how many rows they can give.

   A slice is a stretch of a run that one work-item counts. Its counters begin with the groups of
   its first window, and it gives the rows of its own part alone: per trigger those of the groups
   from `fresh` on, per slide those of the boundaries behind `since` and up to `limit`. */

typedef struct {
  long first, fresh, last, since, limit;
} slice;

/* The first multiple of slide that is not before position. */
static long up(long position, long slide) {
  long quotient = position / slide;
  return (position % slide > 0 ? quotient + 1 : quotient) * slide;
}

/* The last multiple of slide that is not behind position, in slides. */
static long slides_until(long position, long slide) {
  long quotient = position / slide;
  return position % slide < 0 ? quotient - 1 : quotient;
}

/* By slice and query, how many times the query is evaluated. */
kernel void room_for_rows(int slices, global const slice *slice_of, int queries,
                          global const long *position, global const long *event,
                          global const long *move_letter, global const uint *trigger,
                          global const uint *triggers, long width, long slide_by,
                          global long *room) {
  int s = get_global_id(0);
  if (s >= slices) return;
  slice mine = slice_of[s];
  room += (long)s * queries;
  for (int q = 0; q < queries; q++) room[q] = 0;
  if (slide_by == 0) {
    for (long e = event[mine.fresh]; e < event[mine.last]; e++)
      for (uint t = trigger[move_letter[e]]; t < trigger[move_letter[e] + 1]; t++)
        room[triggers[t]]++;
    return;
  }
  /* A group is in the windows that end from its position to before position + width. */
  long found = 0, done = mine.since;
  for (long g = mine.first; g < mine.last; g++) {
    long low = slides_until(max(done, position[g] - 1), slide_by);
    long high = slides_until(max(done, min(mine.limit, position[g] + width - 1)), slide_by);
    found += max(0L, high - low);
    done = max(done, high * slide_by);
  }
  for (int q = 0; q < queries; q++) room[q] = found;
}
