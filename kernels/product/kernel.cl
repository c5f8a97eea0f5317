/* The sliding product of product.py for OpenCL: one work-item a slice (see segments.cl).

   The tables and their layout are those of product.py; see there for what happens and why. Each
   slice has a part of `memory` for its counters, of `log_*` for what the front undoes, and for each
   query a segment of the output, of which `cursor` says where the next row goes. DUAL is 1 where
   floating-point counts run beside the whole ones. */

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

enum { SUM, NUMBER, MIN, MAX };
enum {
  MOVE, MOVES, VALUE_MOVE, VALUE_MOVES, VALUE_TAG, VALUE_TAGS,
  STAY, STAYS, STAY_SOURCES, VALUE_STAY, VALUE_STAYS, VALUE_STAY_SOURCES
};
enum { PAIR, PAIRS, VALUE, VALUE_KINDS, VALUE_PAIR, VALUE_PAIRS, TRIGGER, TRIGGERS };
enum { VALUE_ADDS, ADD_TAGS, ADDS, CLEARS, VALUE_CLEARS, SECTIONS };

static double neutral(int kind) {
  return kind == MIN ? INFINITY : kind == MAX ? -INFINITY : 0.0;
}

static double combine(int kind, double a, double b) {
  return kind == MIN ? fmin(a, b) : kind == MAX ? fmax(a, b) : a + b;
}

/* Nothing where one is nothing: a count past 2^1024 is infinite. */
static double times(double a, double b) { return a == 0.0 || b == 0.0 ? 0.0 : a * b; }

static double term(int kind, double x, double count) {
  if (isnan(x)) return neutral(kind);
  if (kind == SUM) return times(x, count);
  if (kind == NUMBER) return count;
  return count > 0 ? x : neutral(kind);
}

/* What letters do to counters of one direction. */
typedef struct {
  global const int *tables;
  global const ulong *start;
  global const double *start_v;
  global const char *kinds;
  global const char *in_place;
  global const long *section;
  global const uint *sections;
  int n, nv;
} operators;

/* Counters of one direction: counts, the same as floating point where DUAL, values. */
typedef struct {
  global ulong *counts;
  global double *floats;
  global double *values;
} counters;

/* What a front's groups changed, the newest group below; `first` says where each one's begins. */
typedef struct {
  global const char *logged;
  global const char *logged_v;
  global int *key;
  global ulong *count;
  global double *approximate;
  global int *key_v;
  global double *value;
  long top, top_v;
} changes;

/* Room in which a group's effect is worked out before anything is written. */
typedef struct {
  global ulong *added;
  global double *added_f;
  global double *added_v;
  global int *touched;
  global int *touched_v;
  global int *order;
  global int *order_v;
} scratch;

static double ways(counters c, int i) { return DUAL ? c.floats[i] : (double)c.counts[i]; }

static void reset(counters c, operators by) {
  for (int i = 0; i < by.n; i++) {
    c.counts[i] = by.start[i];
    if (DUAL) c.floats[i] = (double)by.start[i];
  }
  for (int i = 0; i < by.nv; i++) c.values[i] = by.start_v[i];
}

/* The new value of counter order[i] is added[order[i]], and of value counter order_v[i] likewise;
   how many of them there are is returned. */
static int2 apply(long first, long last, long stay, global const long *move_letter,
                  global const double *inputs, long events, operators by, counters c, scratch s) {
  int n = 0, nv = 0;
  global const int *t = by.tables;
  global const char *kinds = by.kinds;
  for (int row = t[t[STAY] + stay]; row < t[t[STAY] + stay + 1]; row++) {
    int at = t[STAYS] + 3 * row, target = t[at];
    ulong count = 0;
    double approximate = 0.0;
    for (int k = t[STAY_SOURCES] + t[at + 1]; k < t[STAY_SOURCES] + t[at + 2]; k++) {
      count += c.counts[t[k]];
      if (DUAL) approximate += c.floats[t[k]];
    }
    s.touched[target] = 1;
    s.order[n++] = target;
    s.added[target] = count;
    if (DUAL) s.added_f[target] = approximate;
  }
  for (int row = t[t[VALUE_STAY] + stay]; row < t[t[VALUE_STAY] + stay + 1]; row++) {
    int at = t[VALUE_STAYS] + 3 * row, target = t[at];
    double total = neutral(kinds[target]);
    for (int k = t[VALUE_STAY_SOURCES] + t[at + 1]; k < t[VALUE_STAY_SOURCES] + t[at + 2]; k++)
      total = combine(kinds[target], total, c.values[t[k]]);
    s.touched_v[target] = 1;
    s.order_v[nv++] = target;
    s.added_v[target] = total;
  }
  for (long e = first; e < last; e++) {
    long letter = move_letter[e];
    for (int row = t[t[VALUE_MOVE] + letter]; row < t[t[VALUE_MOVE] + letter + 1]; row++) {
      int at = t[VALUE_MOVES] + 2 * row, target = t[at];
      if (!s.touched_v[target]) {
        s.touched_v[target] = 1;
        s.order_v[nv++] = target;
        s.added_v[target] = c.values[target];
      }
      s.added_v[target] = combine(kinds[target], s.added_v[target], c.values[t[at + 1]]);
    }
    for (int row = t[t[VALUE_TAG] + letter]; row < t[t[VALUE_TAG] + letter + 1]; row++) {
      int at = t[VALUE_TAGS] + 3 * row, target = t[at];
      if (!s.touched_v[target]) {
        s.touched_v[target] = 1;
        s.order_v[nv++] = target;
        s.added_v[target] = c.values[target];
      }
      double x = inputs[t[at + 2] * events + e];
      s.added_v[target] =
          combine(kinds[target], s.added_v[target], term(kinds[target], x, ways(c, t[at + 1])));
    }
    for (int row = t[t[MOVE] + letter]; row < t[t[MOVE] + letter + 1]; row++) {
      int at = t[MOVES] + 2 * row, target = t[at], source = t[at + 1];
      if (!s.touched[target]) {
        s.touched[target] = 1;
        s.order[n++] = target;
        s.added[target] = c.counts[target];
        if (DUAL) s.added_f[target] = c.floats[target];
      }
      s.added[target] += c.counts[source];
      if (DUAL) s.added_f[target] += c.floats[source];
    }
  }
  return (int2)(n, nv);
}

/* The effect of a group of one event: values first, as they read the counts before it. */
static void in_place(long letter, long e, global const double *inputs, long events, operators by,
                     counters c) {
  global const long *at = by.section + SECTIONS * letter;
  global const uint *row = by.sections;
  if (by.nv) {
    for (long i = at[VALUE_ADDS]; i < at[VALUE_ADDS + 1]; i += 2) {
      uint t = row[i];
      c.values[t] = combine(by.kinds[t], c.values[t], c.values[row[i + 1]]);
    }
    for (long i = at[ADD_TAGS]; i < at[ADD_TAGS + 1]; i += 3) {
      uint t = row[i];
      double x = inputs[row[i + 2] * events + e];
      c.values[t] = combine(by.kinds[t], c.values[t], term(by.kinds[t], x, ways(c, row[i + 1])));
    }
    for (long i = at[VALUE_CLEARS]; i < at[VALUE_CLEARS + 1]; i++)
      c.values[row[i]] = neutral(by.kinds[row[i]]);
  }
  for (long i = at[ADDS]; i < at[ADDS + 1]; i += 2) {
    c.counts[row[i]] += c.counts[row[i + 1]];
    if (DUAL) c.floats[row[i]] += c.floats[row[i + 1]];
  }
  for (long i = at[CLEARS]; i < at[CLEARS + 1]; i++) {
    c.counts[row[i]] = 0;
    if (DUAL) c.floats[row[i]] = 0.0;
  }
}

static void keep(int target, counters c, changes *to) {
  if (!to->logged[target]) return;
  to->key[to->top] = target;
  to->count[to->top] = c.counts[target];
  if (DUAL) to->approximate[to->top] = c.floats[target];
  to->top++;
}

static void keep_value(int target, counters c, changes *to) {
  if (!to->logged_v[target]) return;
  to->key_v[to->top_v] = target;
  to->value[to->top_v++] = c.values[target];
}

/* Keep what a letter will change in place; what changes twice is kept twice, the older below. */
static void keep_all(long letter, operators by, counters c, changes *to) {
  global const long *at = by.section + SECTIONS * letter;
  for (long i = at[ADDS]; i < at[ADDS + 1]; i += 2) keep(by.sections[i], c, to);
  for (long i = at[CLEARS]; i < at[CLEARS + 1]; i++) keep(by.sections[i], c, to);
  if (!by.nv) return;
  for (long i = at[VALUE_ADDS]; i < at[VALUE_ADDS + 1]; i += 2) keep_value(by.sections[i], c, to);
  for (long i = at[ADD_TAGS]; i < at[ADD_TAGS + 1]; i += 3) keep_value(by.sections[i], c, to);
  for (long i = at[VALUE_CLEARS]; i < at[VALUE_CLEARS + 1]; i++)
    keep_value(by.sections[i], c, to);
}

/* Write what apply worked out. */
static void write(int2 m, counters c, scratch s) {
  for (int i = 0; i < m.x; i++) {
    int target = s.order[i];
    s.touched[target] = 0;
    c.counts[target] = s.added[target];
    if (DUAL) c.floats[target] = s.added_f[target];
  }
  for (int i = 0; i < m.y; i++) {
    int target = s.order_v[i];
    s.touched_v[target] = 0;
    c.values[target] = s.added_v[target];
  }
}

/* A query's value results: each is carried by the front or by the back. */
static void read_values(long q, global const int *reading, counters front, counters back,
                        global double *out, int values) {
  int first = reading[reading[VALUE] + q], behind = reading[reading[VALUE] + q + 1];
  for (int v = first; v < behind; v++) {
    int kind = reading[reading[VALUE_KINDS] + v];
    double total = neutral(kind);
    for (int p = reading[reading[VALUE_PAIR] + v]; p < reading[reading[VALUE_PAIR] + v + 1]; p++) {
      int at = reading[VALUE_PAIRS] + 4 * p, in_front = reading[at] >= 0;
      double others = in_front ? ways(back, reading[at + 3]) : ways(front, reading[at + 1]);
      double value = in_front ? front.values[reading[at]] : back.values[reading[at + 2]];
      if (others > 0.0)
        total = combine(kind, total, kind == SUM || kind == NUMBER ? times(value, others) : value);
    }
    out[v - first] = total;
  }
  for (int v = behind - first; v < values; v++) out[v] = 0.0;
}

kernel void slide_product(
    int slices, global const slice *restrict slice_of, int queries,
    global const long *restrict position, global const long *restrict event,
    global const long *restrict move_letter, global const long *restrict stay_letter,
    global const double *restrict inputs, long events,
    global const int *restrict b, global const ulong *restrict b_start,
    global const double *restrict b_start_v, global const char *restrict b_kinds,
    global const char *restrict b_in_place, global const long *restrict b_section,
    global const uint *restrict b_sections, int nb, int nbv,
    global const int *restrict f, global const ulong *restrict f_start,
    global const double *restrict f_start_v, global const char *restrict f_kinds,
    global const char *restrict f_in_place, global const long *restrict f_section,
    global const uint *restrict f_sections, int nf, int nfv,
    global const char *restrict f_logged, global const char *restrict f_logged_v,
    global const int *restrict reading, long width, long slide_by,
    global ulong *restrict memory, long memory_size, global const long *restrict log_base,
    global const long *restrict log_base_v, global const long *restrict held_base,
    global int *restrict log_key, global ulong *restrict log_count,
    global double *restrict log_float, global int *restrict log_key_v,
    global double *restrict log_value, global long *restrict log_first,
    global long *restrict log_first_v, int values, global long *restrict cursor,
    global long *restrict out_group, global long *restrict out_boundary,
    global ulong *restrict out_counts, global double *restrict out_approximate,
    global double *restrict out_values) {
  int number = get_global_id(0);
  if (number >= slices) return;
  slice mine = slice_of[number];
  operators append = {b, b_start, b_start_v, b_kinds, b_in_place, b_section, b_sections, nb, nbv};
  operators prepend = {f, f_start, f_start_v, f_kinds, f_in_place, f_section, f_sections, nf, nfv};
  changes log = {
      f_logged, f_logged_v, log_key + log_base[number], log_count + log_base[number],
      log_float + DUAL * log_base[number], log_key_v + log_base_v[number],
      log_value + log_base_v[number], 0, 0};
  log_first += held_base[number];
  log_first_v += held_base[number];
  cursor += (long)number * queries;
  int n = max(nb, nf), nv = max(nbv, nfv);
  global ulong *own = memory + number * memory_size;
  counters back = {own, (global double *)(own + nb), (global double *)(own + (1 + DUAL) * nb)};
  own += (1 + DUAL) * nb + nbv;
  counters front = {own, (global double *)(own + nf), (global double *)(own + (1 + DUAL) * nf)};
  own += (1 + DUAL) * nf + nfv;
  scratch s;
  s.added = own;
  s.added_f = (global double *)(own + n);
  s.added_v = (global double *)(own + (1 + DUAL) * n);
  own += (1 + DUAL) * n + nv;
  s.touched = (global int *)own;
  s.order = s.touched + n;
  s.touched_v = s.order + n;
  s.order_v = s.touched_v + nv;
  global long *stamp = (global long *)(own + n + nv);
  for (int i = 0; i < n; i++) s.touched[i] = 0;
  for (int i = 0; i < nv; i++) s.touched_v[i] = 0;
  for (int q = 0; q < queries; q++) stamp[q] = -1;
  reset(back, append);
  reset(front, prepend);

  /* Groups [head, middle) are in the front, [middle, g) in the back; `built` is what head was when
     the front was. */
  long head = mine.first, middle = mine.first, built = mine.first, g = mine.first, boundary = 0;
  if (slide_by > 0 && mine.first < mine.last)
    boundary = up(max(position[mine.first], mine.since + 1), slide_by);
  while (mine.first < mine.last) {
    int at_boundary = 0;
    if (slide_by > 0) {
      if (boundary > mine.limit) break;
      at_boundary = g < mine.last ? boundary < position[g] : head < mine.last;
    }
    if (g == mine.last && !at_boundary) break;
    if (at_boundary || (slide_by == 0 && g >= mine.fresh)) {
      long low = (at_boundary ? boundary : position[g]) - width;
      for (; head < g && position[head] <= low; head++) {
        if (head == middle) {
          reset(front, prepend);
          log.top = 0;
          log.top_v = 0;
          built = head;
          for (long older = g - 1; older >= head; older--) {
            log_first[older - built] = log.top;
            log_first_v[older - built] = log.top_v;
            long e = event[older];
            if (event[older + 1] - e == 1 && f_in_place[move_letter[e]]) {
              keep_all(move_letter[e], prepend, front, &log);
              in_place(move_letter[e], e, inputs, events, prepend, front);
              continue;
            }
            int2 m = apply(e, event[older + 1], stay_letter[older], move_letter, inputs, events,
                           prepend, front, s);
            for (int i = 0; i < m.x; i++) keep(s.order[i], front, &log);
            for (int i = 0; i < m.y; i++) keep_value(s.order_v[i], front, &log);
            write(m, front, s);
          }
          middle = g;
          reset(back, append);
        }
        while (log.top > log_first[head - built]) {
          log.top--;
          front.counts[log.key[log.top]] = log.count[log.top];
          if (DUAL) front.floats[log.key[log.top]] = log.approximate[log.top];
        }
        while (log.top_v > log_first_v[head - built]) {
          log.top_v--;
          front.values[log.key_v[log.top_v]] = log.value[log.top_v];
        }
      }
    }
    if (at_boundary && head == g) {
      if (g == mine.last) break;
      boundary = up(position[g], slide_by);
      continue;
    }
    if (!at_boundary) {
      long e = event[g];
      if (event[g + 1] - e == 1 && b_in_place[move_letter[e]])
        in_place(move_letter[e], e, inputs, events, append, back);
      else
        write(apply(e, event[g + 1], stay_letter[g], move_letter, inputs, events, append, back, s),
              back, s);
      g++;
      if (slide_by > 0 || g <= mine.fresh) continue;
    }
    long first_event = at_boundary ? 0 : event[g - 1], last_event = at_boundary ? 1 : event[g];
    for (long e = first_event; e < last_event; e++) {
      long start = at_boundary ? 0 : reading[reading[TRIGGER] + move_letter[e]];
      long end = at_boundary ? queries : reading[reading[TRIGGER] + move_letter[e] + 1];
      for (long k = start; k < end; k++) {
        long q = at_boundary ? k : reading[reading[TRIGGERS] + k];
        if (last_event - first_event > 1) {
          if (stamp[q] == g) continue;
          stamp[q] = g;
        }
        ulong count = 0;
        double approximate = 0.0;
        for (int p = reading[reading[PAIR] + q]; p < reading[reading[PAIR] + q + 1]; p++) {
          int at = reading[PAIRS] + 2 * p;
          count += front.counts[reading[at]] * back.counts[reading[at + 1]];
          if (DUAL) approximate += times(front.floats[reading[at]], back.floats[reading[at + 1]]);
        }
        if (DUAL ? approximate == 0.0 : count == 0) continue;
        long row = cursor[q]++;
        out_group[row] = g - 1;
        if (at_boundary) out_boundary[row] = boundary;
        out_counts[row] = count;
        if (DUAL) out_approximate[row] = approximate;
        read_values(q, reading, front, back, out_values + row * values, values);
      }
    }
    if (at_boundary) boundary += slide_by;
  }
}
