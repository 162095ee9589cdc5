/* What output costs a solver: the same particles, each step, in several ways, in one run.
 *
 *     mpirun -n 4 ./insitu FOLDER PARTICLES STEPS
 *
 * PARTICLES are of all ranks together. Between two outputs the solver computes for a while. For each
 * way it prints a line: its name; the slowest rank's mean and worst seconds a step, and in all with
 * the last byte durable; bytes and files; and the mean as a multiple of a copy of the particles.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubist_mpi.h"

enum { COLUMNS = 9 };
static const char *NAMES[COLUMNS] = {"x", "y", "z", "ux", "uy", "uz", "diameter", "pid", "time"};
static const char *TABLE =
    "{\"columns\": {\"x\": \"f64\", \"y\": \"f64\", \"z\": \"f64\", \"ux\": \"f64\", \"uy\": \"f64\","
    " \"uz\": \"f64\", \"diameter\": \"f64\", \"pid\": \"f64\", \"time\": \"f64\"},"
    " \"dimensions\": {\"x\": [0, 1], \"y\": [0, 1], \"z\": [0, 1], \"time\": [0, 1]},"
    " \"identity\": [\"pid\", \"time\"], \"exist_ok\": false}";

typedef struct State {
  int rank, ranks;
  int64_t n, steps;
  double *columns[COLUMNS];
  double *all[COLUMNS]; /* of rank 0, for all ranks */
  char *folder;
} State;

typedef struct Way {
  const char *name;
  void (*open)(State *, const struct Way *);
  void (*write)(State *, const struct Way *, int64_t step);
  void (*close)(State *, const struct Way *);
  int mode, queue;
} Way;

static KubistMpi run;
static FILE *text;
static int file;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(KubistStatus status, const char *message) {
  if (status != KUBIST_STATUS_OK) fail(message);
}

static void path_of(State *state, const Way *way, char *path, size_t size, int rank, int64_t step) {
  snprintf(path, size, "%s/%s-%d-%lld", state->folder, way->name, rank, (long long)step);
}

static void gather(State *state) {
  for (int c = 0; c < COLUMNS; c++)
    MPI_Gather(state->columns[c], (int)state->n, MPI_DOUBLE, state->all[c], (int)state->n, MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
}

static void nothing(State *state, const Way *way) { (void)state, (void)way; }

static void durable_file(int descriptor) {
  if (fdatasync(descriptor) != 0) fail("fdatasync");
}

static void write_csv(State *state, const Way *way, int64_t step) {
  char path[4096];
  gather(state);
  if (state->rank == 0) {
    path_of(state, way, path, sizeof path, 0, step);
    if ((text = fopen(path, "w")) == NULL) fail(path);
    for (int64_t i = 0; i < state->n * state->ranks; i++)
      for (int c = 0; c < COLUMNS; c++) fprintf(text, "%.17g%c", state->all[c][i], c == COLUMNS - 1 ? '\n' : ',');
    fflush(text);
    durable_file(fileno(text));
    fclose(text);
  }
  /* As in the paper: all wait for the one that writes. */
  MPI_Barrier(MPI_COMM_WORLD);
}

static void write_whole(int descriptor, const void *bytes, size_t length) {
  for (const char *at = bytes; length > 0;) {
    ssize_t some = write(descriptor, at, length);
    if (some < 0) fail("write");
    at += some;
    length -= (size_t)some;
  }
}

static void write_binary(State *state, const Way *way, int64_t step) {
  char path[4096];
  const int gathered = way->mode == 0;
  if (gathered) gather(state);
  if (!gathered || state->rank == 0) {
    path_of(state, way, path, sizeof path, state->rank, step);
    if ((file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644)) < 0) fail(path);
    const size_t bytes = (size_t)state->n * (gathered ? (size_t)state->ranks : 1) * sizeof(double);
    for (int c = 0; c < COLUMNS; c++) write_whole(file, gathered ? state->all[c] : state->columns[c], bytes);
    durable_file(file);
    close(file);
  }
  if (gathered) MPI_Barrier(MPI_COMM_WORLD);
}

static void open_kubist(State *state, const Way *way) {
  char path[4096], options[64];
  KubistMpiOptions with = {.size = sizeof with, .mode = way->mode};
  path_of(state, way, path, sizeof path, 0, 0);
  snprintf(options, sizeof options, "{\"queue\": %d, \"timeout_seconds\": 3600}", way->queue);
  with.writer_options = options;
  /* Room for two steps: a rank waits only for a leader that is further behind. */
  with.lane_bytes = (uint64_t)state->n * COLUMNS * 8 * 2 + (1 << 20);
  must(kubist_mpi_open(MPI_COMM_WORLD, path, TABLE, &with, &run), run.message);
}

static void write_kubist(State *state, const Way *way, int64_t step) {
  must(kubist_begin_step(run.writer, step), kubist_message());
  for (int c = 0; c < COLUMNS; c++)
    must(kubist_put(run.writer, NAMES[c], KUBIST_TYPE_F64, state->columns[c], (uint64_t)state->n, 0),
         kubist_message());
  must(kubist_end_step(run.writer, NULL, NULL), kubist_message());
  if (way->queue == 0) must(kubist_wait(run.writer, step, 3600), kubist_message());
}

static void close_kubist(State *state, const Way *way) {
  (void)state, (void)way;
  must(kubist_mpi_close(&run, 3600), run.message);
}

/* The least that a solver can wait whose particles are to be written later. */
static double *copied;

static void open_copy(State *state, const Way *way) {
  (void)way;
  if ((copied = calloc((size_t)state->n * COLUMNS + 1, sizeof *copied)) == NULL) fail("memory");
}

static void write_copy(State *state, const Way *way, int64_t step) {
  (void)way, (void)step;
  for (int c = 0; c < COLUMNS; c++)
    memcpy(copied + c * state->n, state->columns[c], (size_t)state->n * sizeof *copied);
  /* Somebody may look: the copy is not left out. */
  __asm__ volatile("" : : "r"(copied) : "memory");
}

static void close_copy(State *state, const Way *way) {
  (void)state, (void)way;
  free(copied);
}

static const Way WAYS[] = {
    {"memcpy", open_copy, write_copy, close_copy, 0, 0},
    {"gathered-csv", nothing, write_csv, nothing, 0, 0},
    {"gathered-binary", nothing, write_binary, nothing, 0, 0},
    {"file-per-rank", nothing, write_binary, nothing, 1, 0},
    {"kubist-rank-sync", open_kubist, write_kubist, close_kubist, KUBIST_MPI_PER_RANK, 0},
    {"kubist-rank-async", open_kubist, write_kubist, close_kubist, KUBIST_MPI_PER_RANK, 2},
    {"kubist-node-sync", open_kubist, write_kubist, close_kubist, KUBIST_MPI_PER_NODE, 0},
    {"kubist-node-async", open_kubist, write_kubist, close_kubist, KUBIST_MPI_PER_NODE, 2},
};

/* Bytes and files of a way, below a folder. */
static void count(const char *folder, const char *begin, double *bytes, long *files) {
  DIR *entries = opendir(folder);
  struct dirent *entry;
  if (entries == NULL) fail(folder);
  while ((entry = readdir(entries)) != NULL) {
    char path[8192];
    struct stat about;
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, begin, strlen(begin)) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &about) != 0) continue;
    if (S_ISDIR(about.st_mode)) {
      count(path, "", bytes, files);
    } else {
      *bytes += (double)about.st_size;
      *files += 1;
    }
  }
  closedir(entries);
}

/* The particles of a step; with real solvers this is the work. */
static void compute(State *state, int64_t step) {
  for (int64_t i = 0; i < state->n; i++) {
    for (int c = 0; c < 3; c++) {
      double *x = &state->columns[c][i];
      *x += state->columns[3 + c][i] * 1e-3;
      *x -= *x >= 1 ? 1 : 0;
    }
    state->columns[8][i] = (double)step / (double)(state->steps + 1);
  }
}

static void fill(State *state) {
  uint64_t random = 88172645463325252ULL + (uint64_t)state->rank;
  for (int64_t i = 0; i < state->n; i++) {
    for (int c = 0; c < 7; c++) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      state->columns[c][i] = (double)(random >> 11) / 9007199254740992.0;
    }
    state->columns[7][i] = (double)(state->rank * state->n + i);
  }
}

static double slowest(double seconds) {
  double all;
  MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/* Measures a way, and returns the mean seconds of a step. */
static double measure(State *state, const Way *way, double copy) {
  double total = 0, worst = 0, bytes = 0, begin;
  long files = 0;
  fill(state);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  way->open(state, way);
  for (int64_t step = 1; step <= state->steps; step++) {
    compute(state, step);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    way->write(state, way, step);
    const double took = slowest(MPI_Wtime() - begin);
    total += took;
    if (took > worst) worst = took;
  }
  way->close(state, way);
  const double all = slowest(MPI_Wtime() - start);
  const double mean = total / (double)state->steps;
  if (state->rank == 0) {
    count(state->folder, way->name, &bytes, &files);
    printf("%s %d %lld %.6f %.6f %.3f %.0f %ld %.2f\n", way->name, state->ranks, (long long)(state->n * state->ranks),
           mean, worst, all, bytes, files, copy > 0 ? mean / copy : 1.0);
    fflush(stdout);
  }
  return mean;
}

int main(int argc, char **argv) {
  State state = {.steps = 20};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state.ranks);
  if (argc != 4) fail("insitu FOLDER PARTICLES STEPS");
  state.folder = argv[1];
  state.n = atoll(argv[2]) / state.ranks;
  state.steps = atoll(argv[3]);
  for (int c = 0; c < COLUMNS; c++) {
    state.columns[c] = malloc((size_t)state.n * sizeof(double) + 8);
    state.all[c] = state.rank == 0 ? malloc((size_t)state.n * (size_t)state.ranks * sizeof(double) + 8) : NULL;
    if (state.columns[c] == NULL) fail("memory");
  }
  const double copy = measure(&state, &WAYS[0], 0);
  for (size_t way = 1; way < sizeof WAYS / sizeof *WAYS; way++) measure(&state, &WAYS[way], copy);
  for (int c = 0; c < COLUMNS; c++) {
    free(state.columns[c]);
    free(state.all[c]);
  }
  MPI_Finalize();
  return 0;
}
