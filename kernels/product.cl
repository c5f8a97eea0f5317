/* The sliding product of product.py for OpenCL: one work-item a run.

   The tables and their layout are those of product.py; see there for what happens and why. Each
   run has a part of `memory` for its counters, of `log_*` for what the front undoes, and of the
   output for its rows. */

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

enum { SUM, NUMBER, MIN, MAX };
enum {
  MOVE, MOVES, VALUE_MOVE, VALUE_MOVES, VALUE_TAG, VALUE_TAGS,
  STAY, STAYS, STAY_SOURCES, VALUE_STAY, VALUE_STAYS, VALUE_STAY_SOURCES
};
enum { PAIR, PAIRS, VALUE, VALUE_KINDS, VALUE_PAIR, VALUE_PAIRS, TRIGGER, TRIGGERS };

static double neutral(int kind) {
  return kind == MIN ? INFINITY : kind == MAX ? -INFINITY : 0.0;
}

static double combine(int kind, double a, double b) {
  return kind == MIN ? fmin(a, b) : kind == MAX ? fmax(a, b) : a + b;
}

static double term(int kind, double x, double count) {
  if (isnan(x)) return neutral(kind);
  if (kind == SUM) return x * count;
  if (kind == NUMBER) return count;
  return count > 0 ? x : neutral(kind);
}

/* Counters of one direction: counts, the same as floating point, values. */
typedef struct {
  global ulong *counts;
  global double *floats;
  global double *values;
} counters;

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

static void reset(counters c, global const ulong *start, int n, global const double *start_v, int nv) {
  for (int i = 0; i < n; i++) {
    c.counts[i] = start[i];
    c.floats[i] = (double)start[i];
  }
  for (int i = 0; i < nv; i++) c.values[i] = start_v[i];
}

/* The new value of counter order[i] is added[order[i]], and of value counter order_v[i] likewise;
   how many of them there are is returned. */
static int2 apply(long first, long last, long stay, global const long *move_letter,
                  global const double *inputs, long events, global const int *t,
                  global const char *kinds, counters c, scratch s) {
  int n = 0, nv = 0;
  for (int row = t[t[STAY] + stay]; row < t[t[STAY] + stay + 1]; row++) {
    int at = t[STAYS] + 3 * row, target = t[at];
    ulong count = 0;
    double approximate = 0.0;
    for (int k = t[STAY_SOURCES] + t[at + 1]; k < t[STAY_SOURCES] + t[at + 2]; k++) {
      count += c.counts[t[k]];
      approximate += c.floats[t[k]];
    }
    s.touched[target] = 1;
    s.order[n++] = target;
    s.added[target] = count;
    s.added_f[target] = approximate;
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
          combine(kinds[target], s.added_v[target], term(kinds[target], x, c.floats[t[at + 1]]));
    }
    for (int row = t[t[MOVE] + letter]; row < t[t[MOVE] + letter + 1]; row++) {
      int at = t[MOVES] + 2 * row, target = t[at], source = t[at + 1];
      if (!s.touched[target]) {
        s.touched[target] = 1;
        s.order[n++] = target;
        s.added[target] = c.counts[target];
        s.added_f[target] = c.floats[target];
      }
      s.added[target] += c.counts[source];
      s.added_f[target] += c.floats[source];
    }
  }
  return (int2)(n, nv);
}

static long up(long position, long slide) {
  /* The first multiple of slide that is not before position. */
  long quotient = position / slide, remainder = position % slide;
  return (remainder > 0 ? quotient + 1 : quotient) * slide;
}

kernel void slide_product(
    long runs, global const long *run, global const long *limit, global const long *emit_from,
    global const long *position, global const long *stay_letter, global const long *event,
    global const long *move_letter, global const double *inputs, long events,
    global const int *b, global const ulong *b_start, global const double *b_start_v,
    global const char *b_kinds, int nb, int nbv,
    global const int *f, global const ulong *f_start, global const double *f_start_v,
    global const char *f_kinds, global const char *f_logged, global const char *f_logged_v, int nf,
    int nfv, global const int *reading, int queries, long width, long slide,
    global ulong *memory, long memory_size, global long *log_first, global long *log_first_v,
    global const long *log_base, global const long *log_base_v, global int *log_key,
    global ulong *log_count, global double *log_float, global int *log_key_v,
    global double *log_value, global const long *out_base, global long *out_made,
    global long *out_group, global long *out_boundary, global long *out_query,
    global ulong *out_counts, global double *out_approximate, global double *out_values,
    int most_values) {
  long r = get_global_id(0);
  if (r >= runs) return;
  long first = run[2 * r], last = run[2 * r + 1];
  int n = max(nb, nf), nv = max(nbv, nfv);
  global ulong *own = memory + r * memory_size;
  counters back = {own, (global double *)(own + nb), (global double *)(own + 2 * nb)};
  own += 2 * nb + nbv;
  counters front = {own, (global double *)(own + nf), (global double *)(own + 2 * nf)};
  own += 2 * nf + nfv;
  scratch s;
  s.added = own;
  s.added_f = (global double *)(own + n);
  s.added_v = (global double *)(own + 2 * n);
  own += 2 * n + nv;
  s.touched = (global int *)own;
  s.order = s.touched + n;
  s.touched_v = s.order + n;
  s.order_v = s.touched_v + nv;
  global long *stamp = (global long *)(own + n + nv);
  for (int i = 0; i < n; i++) s.touched[i] = 0;
  for (int i = 0; i < nv; i++) s.touched_v[i] = 0;
  for (int q = 0; q < queries; q++) stamp[q] = -1;

  long rows = out_base[r], head = first, middle = first, g = first;
  long top = log_base[r], top_v = log_base_v[r];
  reset(back, b_start, nb, b_start_v, nbv);
  reset(front, f_start, nf, f_start_v, nfv);
  long boundary = slide > 0 && first < last ? up(position[first], slide) : 0;
  while (first < last) {
    int at_boundary = 0;
    if (slide > 0)
      at_boundary = g < last ? boundary < position[g] : head < last && boundary <= limit[r];
    if (g == last && !at_boundary) break;
    if (at_boundary || slide == 0) {
      long now = at_boundary ? boundary : position[g];
      while (head < g && position[head] <= now - width) {
        if (head == middle) {
          reset(front, f_start, nf, f_start_v, nfv);
          top = log_base[r];
          top_v = log_base_v[r];
          for (long older = g - 1; older >= head; older--) {
            log_first[older] = top;
            log_first_v[older] = top_v;
            int2 m = apply(event[older], event[older + 1], stay_letter[older], move_letter, inputs,
                           events, f, f_kinds, front, s);
            for (int i = 0; i < m.x; i++) {
              int target = s.order[i];
              s.touched[target] = 0;
              if (f_logged[target]) {
                log_key[top] = target;
                log_count[top] = front.counts[target];
                log_float[top++] = front.floats[target];
              }
              front.counts[target] = s.added[target];
              front.floats[target] = s.added_f[target];
            }
            for (int i = 0; i < m.y; i++) {
              int target = s.order_v[i];
              s.touched_v[target] = 0;
              if (f_logged_v[target]) {
                log_key_v[top_v] = target;
                log_value[top_v++] = front.values[target];
              }
              front.values[target] = s.added_v[target];
            }
          }
          middle = g;
          reset(back, b_start, nb, b_start_v, nbv);
        }
        while (top > log_first[head]) {
          top--;
          front.counts[log_key[top]] = log_count[top];
          front.floats[log_key[top]] = log_float[top];
        }
        while (top_v > log_first_v[head]) {
          top_v--;
          front.values[log_key_v[top_v]] = log_value[top_v];
        }
        head++;
      }
    }
    if (at_boundary && head == g) {
      if (g == last) break;
      boundary = up(position[g], slide);
      continue;
    }
    if (!at_boundary) {
      int2 m = apply(event[g], event[g + 1], stay_letter[g], move_letter, inputs, events, b,
                     b_kinds, back, s);
      for (int i = 0; i < m.x; i++) {
        int target = s.order[i];
        s.touched[target] = 0;
        back.counts[target] = s.added[target];
        back.floats[target] = s.added_f[target];
      }
      for (int i = 0; i < m.y; i++) {
        s.touched_v[s.order_v[i]] = 0;
        back.values[s.order_v[i]] = s.added_v[s.order_v[i]];
      }
      g++;
      if (slide > 0) continue;
      if (g - 1 < emit_from[r]) continue;
    }
    long first_event = at_boundary ? 0 : event[g - 1], last_event = at_boundary ? 1 : event[g];
    for (long e = first_event; e < last_event; e++) {
      long start = at_boundary ? 0 : reading[reading[TRIGGER] + move_letter[e]];
      long end = at_boundary ? queries : reading[reading[TRIGGER] + move_letter[e] + 1];
      for (long k = start; k < end; k++) {
        long q = at_boundary ? k : reading[reading[TRIGGERS] + k];
        if (!at_boundary) {
          if (stamp[q] == g) continue;
          stamp[q] = g;
        }
        ulong count = 0;
        double approximate = 0.0;
        for (int p = reading[reading[PAIR] + q]; p < reading[reading[PAIR] + q + 1]; p++) {
          int at = reading[PAIRS] + 2 * p;
          count += front.counts[reading[at]] * back.counts[reading[at + 1]];
          approximate += front.floats[reading[at]] * back.floats[reading[at + 1]];
        }
        if (approximate == 0.0) continue;
        out_group[rows] = g - 1;
        out_boundary[rows] = boundary;
        out_query[rows] = q;
        out_counts[rows] = count;
        out_approximate[rows] = approximate;
        int first_value = reading[reading[VALUE] + q];
        for (int v = first_value; v < reading[reading[VALUE] + q + 1]; v++) {
          int kind = reading[reading[VALUE_KINDS] + v];
          double total = neutral(kind);
          for (int p = reading[reading[VALUE_PAIR] + v]; p < reading[reading[VALUE_PAIR] + v + 1];
               p++) {
            int at = reading[VALUE_PAIRS] + 4 * p;
            int in_front = reading[at] >= 0;
            double ways = in_front ? back.floats[reading[at + 3]] : front.floats[reading[at + 1]];
            double value = in_front ? front.values[reading[at]] : back.values[reading[at + 2]];
            if (ways > 0.0)
              total = combine(kind, total, kind == SUM || kind == NUMBER ? value * ways : value);
          }
          out_values[rows * most_values + v - first_value] = total;
        }
        rows++;
      }
    }
    if (at_boundary) boundary += slide;
  }
  out_made[r] = rows - out_base[r];
}
