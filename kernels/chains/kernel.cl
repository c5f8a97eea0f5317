/* The groups of chains.py for OpenCL: a work-item takes the heads from `step` times its number on,
   `step` of them. */

#define MANY (1L << 40) /* as far as groups are counted */

/* `position` is null where no window limits what `stops` does; they then stay as they are. */
kernel void count_chains(int items, long step, global const int *restrict members,
                         global const long *restrict following,
                         global const long *restrict position, long heads,
                         global const long *restrict at, long width, int size,
                         global long *restrict stops, global long *restrict counts,
                         global long *restrict sizes) {
  if (get_global_id(0) >= items) return;
  long behind_all = min(heads, (long)(get_global_id(0) + 1) * step);
  for (long u = get_global_id(0) * step; u < behind_all; u++) {
    long stop = stops[u], entry = following[at[u]];
    long closing = position ? position[members[at[u]]] + width : 0;
    long groups = 1, total = 1;
    int length = 1;
    while (entry < stop && length != size && (!position || position[members[entry]] < closing)) {
      /* The simultaneous events of a list are in the window together. */
      long behind = min(following[entry], stop), many = behind - entry;
      if (size == 0) {
        total = min(total * (1 + many) + groups * many, MANY);
        groups = min(groups * (1 + many), MANY);
      } else {
        groups = min(groups * many, MANY);
      }
      length++;
      entry = behind;
    }
    if (size != 0) {
      groups = length == size ? groups : 0;
      total = min(groups * size, MANY);
    }
    counts[u] = groups;
    sizes[u] = total;
    if (position) stops[u] = max(entry, at[u] + 1);
  }
}

/* `group_of` and `place_of` say where the groups of an item begin, and their places; each has room
   for a path of `deepest` and one more. */
kernel void fill_chains(int items, long step, global const int *restrict members,
                        global const long *restrict following, long heads,
                        global const long *restrict at, global const long *restrict stops,
                        int size, long deepest, global const long *restrict group_of,
                        global const long *restrict place_of, global int *restrict memory,
                        global int *restrict head, global long *restrict offsets,
                        global int *restrict places) {
  if (get_global_id(0) >= items) return;
  global int *path = memory + get_global_id(0) * (deepest + 1);
  long group = group_of[get_global_id(0)], written = place_of[get_global_id(0)];
  long behind_all = min(heads, (long)(get_global_id(0) + 1) * step);
  for (long u = get_global_id(0) * step; u < behind_all; u++) {
    long stop = stops[u];
    long depth = 0;
    path[0] = at[u];
    while (depth >= 0) {
      /* A path is longer first, and then goes on to its last event's next. */
      if (size == 0 || depth + 1 == size) {
        head[group] = u;
        for (long k = 0; k <= depth; k++) places[written++] = members[path[k]];
        offsets[++group] = written;
      }
      if (depth + 1 != size && following[path[depth]] < stop) {
        path[depth + 1] = following[path[depth]];
        depth++;
        continue;
      }
      while (depth > 0) {
        long behind = size == 0 ? stop : min(stop, following[path[depth]]);
        if (++path[depth] < behind) break;
        depth--;
      }
      if (depth == 0) depth = -1;
    }
  }
}
