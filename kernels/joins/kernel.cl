/* The joins of joins.py for OpenCL: a work-item takes the right rows from `step` times its number
   on, `step` of them. Its next row is mostly found near the one before. */

enum { ORDERED = 1, SINGLE = 2, LEFT_GATE = 4, RIGHT_GATE = 8, GROUPED = 16, RISING = 32 };

static bool holds(char test, double a, double b) {
  switch (test) {
    case 0: return a == b;
    case 1: return a < b || a > b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}

static bool all_hold(int tests, global const char *test, global const double *left_values,
                     long left_rows, long k, global const double *right_values, long right_rows,
                     long r) {
  for (int t = 0; t < tests; t++)
    if (!holds(test[t], left_values[t * left_rows + k], right_values[t * right_rows + r]))
      return false;
  return true;
}

/* What `order` has for a row's last place, or what there is of the two. */
static long value(global const long *order, global const int *last, long row) {
  long place = last ? last[row] : row;
  return order ? order[place] : place;
}

/* The first row from low to before high whose value is key or more, looked for around a guess. */
static long first_from(global const long *order, global const int *last, long low, long high,
                       long guess, long key) {
  long step = 1;
  guess = min(max(guess, low), high);
  if (guess < high && value(order, last, guess) < key) {
    low = guess + 1;
    while (low + step < high && value(order, last, low + step) < key) {
      low += step + 1;
      step *= 2;
    }
    high = min(high, low + step);
  } else {
    high = guess;
    while (high - step > low && value(order, last, high - step) >= key) {
      high -= step;
      step *= 2;
    }
    low = max(low, high - step);
  }
  while (low < high) {
    long middle = (low + high) / 2;
    if (value(order, last, middle) < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

kernel void count_pairs(
    int items, long step, global const long *restrict moment, global const long *restrict position,
    long left_rows, global const int *restrict left_first, global const int *restrict left_last,
    global const long *restrict left_gate, global const double *restrict left_values,
    global const long *restrict groups, long right_rows, global const int *restrict right_first,
    global const int *restrict right_last, global const long *restrict right_gate,
    global const double *restrict right_values, global const int *restrict group, int tests,
    global const char *restrict test, long width, int how, global int *restrict begin,
    global int *restrict end, global long *restrict counts) {
  if (get_global_id(0) >= items) return;
  long stop = min(right_rows, (long)(get_global_id(0) + 1) * step);
  long bottom = 0, top = 0;
  int before = -1;
  for (long r = get_global_id(0) * step; r < stop; r++) {
    begin[r] = end[r] = counts[r] = 0;
    int g = how & GROUPED ? group[r] : 0;
    if (g < 0) continue;
    long first = groups[g], behind = groups[g + 1];
    if (g != before) bottom = top = (first + behind) / 2;
    before = g;
    long opening = position[right_last[r]] - width;
    long start = moment[right_first[r]];
    bottom = first_from(position, left_last, first, behind, bottom, opening + 1);
    long from = bottom;
    if (how & ORDERED) {
      top = first_from(moment, left_last, bottom, behind, top, start);
      if (how & RIGHT_GATE)
        from = first_from(moment, left_last, bottom, top, bottom, right_gate[r]);
      if (how & RISING) from = first_from(left_gate, 0, from, top, from, start);
    } else {
      long closing = position[right_first[r]] + width;
      top = first_from(position, left_last, bottom, behind, top, closing);
    }
    begin[r] = from;
    end[r] = top;
    if (how & SINGLE && (how & RISING || !(how & LEFT_GATE)) && tests == 0) {
      counts[r] = top - from;
      continue;
    }
    long fitting = 0;
    for (long k = from; k < top; k++)
      fitting += (how & SINGLE || position[left_first[k]] > opening) &&
                 !(how & LEFT_GATE && left_gate[k] < start) &&
                 all_hold(tests, test, left_values, left_rows, k, right_values, right_rows, r);
    counts[r] = fitting;
  }
}

/* The rows from start to before stop, of which `offset` says where those of each item go. */
kernel void fill_pairs(
    int items, long step, global const long *restrict moment, global const long *restrict position,
    long left_rows, global const int *restrict left_first, global const int *restrict left_last,
    global const long *restrict left_gate, global const double *restrict left_values,
    long right_rows, global const int *restrict right_first, global const int *restrict right_last,
    global const double *restrict right_values, int tests, global const char *restrict test,
    long width, int how, global const int *restrict begin, global const int *restrict end,
    long start_row, long stop_row, global const long *restrict offset, global int *restrict rows,
    global int *restrict others) {
  if (get_global_id(0) >= items) return;
  long at = offset[get_global_id(0)];
  long first = start_row + get_global_id(0) * step, stop = min(stop_row, first + step);
  for (long r = first; r < stop; r++) {
    long opening = position[right_last[r]] - width;
    long start = moment[right_first[r]];
    for (long k = begin[r]; k < end[r]; k++) {
      if (!(how & SINGLE) && position[left_first[k]] <= opening) continue;
      if (how & LEFT_GATE && left_gate[k] < start) continue;
      if (!all_hold(tests, test, left_values, left_rows, k, right_values, right_rows, r)) continue;
      rows[at] = k;
      others[at] = r;
      at++;
    }
  }
}

kernel void probe(int items, long step, long left_rows, global const int *restrict first,
                  global const int *restrict last, global const double *restrict left_values,
                  global const long *restrict groups, long regions, global const int *restrict low,
                  global const int *restrict high, global const double *restrict values,
                  global const int *restrict group, int tests, global const char *restrict test,
                  int how, int latest, global int *restrict found, global long *restrict tried) {
  if (get_global_id(0) >= items) return;
  long stop = min(regions, (long)(get_global_id(0) + 1) * step), tries = 0, guess = 0;
  int before = -1;
  for (long r = get_global_id(0) * step; r < stop; r++) {
    found[r] = latest ? -1 : INT_MAX;
    int g = how & GROUPED ? group[r] : 0;
    if (g < 0 || low[r] >= high[r]) continue;
    long bottom = groups[g], top = groups[g + 1];
    if (g != before) guess = (bottom + top) / 2;
    before = g;
    guess = first_from(0, last, bottom, top, guess, latest ? high[r] : low[r]);
    if (latest) {
      int best = low[r] - 1;
      /* What ends before the best start found cannot start later. */
      for (long k = guess - 1; k >= bottom && last[k] > best; k--) {
        tries++;
        if (first[k] > best &&
            all_hold(tests, test, left_values, left_rows, k, values, regions, r))
          best = first[k];
      }
      if (best >= low[r]) found[r] = best;
      continue;
    }
    for (long k = guess; k < top && last[k] < high[r]; k++) {
      tries++;
      if (first[k] >= low[r] &&
          all_hold(tests, test, left_values, left_rows, k, values, regions, r)) {
        found[r] = last[k];
        break;
      }
    }
  }
  tried[get_global_id(0)] = tries;
}

kernel void latest_starts(int items, long step, global const long *restrict moment,
                          global const long *restrict position, long rows,
                          global const int *restrict first, global const int *restrict last,
                          long size, global const int *restrict places, int gated,
                          global const long *restrict gate, long width,
                          global int *restrict found) {
  if (get_global_id(0) >= items) return;
  long stop = min(size, (long)(get_global_id(0) + 1) * step), behind = rows / 2;
  for (long i = get_global_id(0) * step; i < stop; i++) {
    found[i] = -1;
    behind = first_from(moment, last, 0, rows, behind, moment[places[i]]);
    long row = behind - 1;
    if (row < 0 || position[places[i]] - position[first[row]] >= width) continue;
    if (!gated || moment[last[row]] >= gate[i]) found[i] = first[row];
  }
}

kernel void places_from(int items, long step, long size, global const long *restrict values,
                        long keys, global const long *restrict key, global int *restrict found) {
  if (get_global_id(0) >= items) return;
  long stop = min(keys, (long)(get_global_id(0) + 1) * step), guess = size / 2;
  for (long i = get_global_id(0) * step; i < stop; i++)
    found[i] = guess = first_from(values, 0, 0, size, guess, key[i]);
}
