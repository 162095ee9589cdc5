/* A Kubist table, in the four modes of kubist_mpi.h. */

#include <stdio.h>

#include "insitu.h"

static const char *TABLE =
    "{\"columns\": {\"x\": \"f64\", \"y\": \"f64\", \"z\": \"f64\", \"ux\": \"f64\", \"uy\": \"f64\","
    " \"uz\": \"f64\", \"diameter\": \"f64\", \"pid\": \"f64\", \"time\": \"f64\"},"
    " \"dimensions\": {\"x\": [0, 1], \"y\": [0, 1], \"z\": [0, 1], \"time\": [0, 1]},"
    " \"identity\": [\"pid\", \"time\"], \"exist_ok\": false}";

static KubistMpi run;

static void must(KubistStatus status, const char *message) {
  if (status != KUBIST_STATUS_OK) fail(message == NULL ? kubist_message() : message);
}

void open_kubist(State *state, const Way *way) {
  char path[4096], options[64];
  KubistMpiOptions with = {.size = sizeof with, .mode = way->mode};
  path_of(state, way, path, sizeof path, 0, 0);
  snprintf(options, sizeof options, "{\"queue\": %d, \"timeout_seconds\": 3600}", way->queue);
  with.writer_options = options;
  /* Space for two steps: a rank waits only if the leader is further behind. */
  with.lane_bytes = (uint64_t)state->n * COLUMNS * 8 * 2 + (1 << 20);
  must(kubist_mpi_open(MPI_COMM_WORLD, path, TABLE, &with, &run), run.message);
}

void write_kubist(State *state, const Way *way, int64_t step) {
  must(kubist_begin_step(run.writer, step), NULL);
  for (int c = 0; c < COLUMNS; c++)
    must(kubist_put(run.writer, NAMES[c], KUBIST_TYPE_F64, state->columns[c], (uint64_t)state->n, 0), NULL);
  must(kubist_end_step(run.writer, NULL, NULL), NULL);
  if (way->queue == 0) must(kubist_wait(run.writer, step, 3600), NULL);
}

void close_kubist(State *state, const Way *way) {
  (void)state, (void)way;
  must(kubist_mpi_close(&run, 3600), run.message);
}

/* Arrow's C stream interface, for the number of rows only. */
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

int64_t show_kubist(State *state, const Way *way, const double low[3], const double high[3], double share) {
  char path[4096], query[512];
  KubistTable *table;
  struct ArrowArrayStream stream;
  struct ArrowArray batch;
  int64_t rows = 0;
  path_of(state, way, path, sizeof path, 0, 0);
  snprintf(query, sizeof query,
           "{\"box\": {\"x\": [%.17g, %.17g], \"y\": [%.17g, %.17g], \"z\": [%.17g, %.17g]}, \"sample\": %.17g}",
           low[0], high[0], low[1], high[1], low[2], high[2], share);
  must(kubist_table_open(path, &table), NULL);
  must(kubist_query(table, query, &stream), NULL);
  for (;;) {
    if (stream.get_next(&stream, &batch) != 0) fail(stream.get_last_error(&stream));
    if (batch.release == NULL) break;
    rows += batch.length;
    batch.release(&batch);
  }
  stream.release(&stream);
  must(kubist_table_close(table), NULL);
  return rows;
}
