/*
 * The cost of output for a solver: the same particles and steps, written in several ways in one
 * run.
 *
 *     mpirun -n 4 ./insitu FOLDER PARTICLES STEPS WORK [WAY ...]
 *
 * PARTICLES is the number over all ranks. Between two outputs the solver computes for WORK
 * microseconds per particle. For each way it prints one line: its name; the slowest rank's mean
 * and worst seconds per step, and total seconds until the last byte is durable; bytes and files;
 * the mean as a multiple of a copy of the particles; the seconds in which one process reads a 1 %
 * sample of a box of all steps, and its rows.
 */

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "insitu.h"

void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void path_of(const State *state, const Way *way, char *path, size_t size, int rank, int64_t step) {
  snprintf(path, size, "%s/%s-%d-%lld", state->folder, way->name, rank, (long long)step);
}

void nothing(State *state, const Way *way) { (void)state, (void)way; }

static void write_nothing(State *state, const Way *way, int64_t step) { (void)state, (void)way, (void)step; }

int one_part(const State *state) {
  (void)state;
  return 1;
}

int part_of_each_rank(const State *state) { return state->ranks; }

/* The minimum cost of output: a copy of the particles. */
static double *copied;

static void open_copy(State *state, const Way *way) {
  (void)way;
  if ((copied = calloc((size_t)state->n * COLUMNS + 1, sizeof *copied)) == NULL) fail("memory");
}

static void write_copy(State *state, const Way *way, int64_t step) {
  (void)way, (void)step;
  for (int c = 0; c < COLUMNS; c++)
    memcpy(copied + c * state->n, state->columns[c], (size_t)state->n * sizeof *copied);
  /* Keeps the compiler from removing the copy. */
  __asm__ volatile("" : : "r"(copied) : "memory");
}

static void close_copy(State *state, const Way *way) {
  (void)state, (void)way;
  free(copied);
}

static const Way WAYS[] = {
    {.name = "no-output", .open = nothing, .write = write_nothing, .close = nothing},
    {.name = "memcpy", .open = open_copy, .write = write_copy, .close = close_copy},
    {.name = "gathered-csv", .open = nothing, .write = write_csv, .close = nothing,
     .parts = one_part, .begin_reading = nothing, .read = read_csv, .end_reading = end_csv},
    {.name = "gathered-binary", .open = nothing, .write = write_binary, .close = nothing,
     .parts = one_part, .begin_reading = nothing, .read = read_binary, .end_reading = nothing},
    {.name = "file-per-rank", .open = nothing, .write = write_binary, .close = nothing,
     .parts = part_of_each_rank, .begin_reading = nothing, .read = read_binary, .end_reading = nothing, .mode = 1},
#ifdef WITH_HDF5
    {.name = "parallel-hdf5", .open = open_hdf5, .write = write_hdf5, .close = close_hdf5,
     .parts = one_part, .begin_reading = begin_hdf5, .read = read_hdf5, .end_reading = close_hdf5},
#endif
#ifdef WITH_ADIOS2
    {.name = "adios2-no-mpi", .open = open_adios2, .write = write_adios2, .close = close_adios2,
     .parts = part_of_each_rank, .begin_reading = begin_adios2, .read = read_adios2, .end_reading = nothing},
#endif
    {.name = "kubist-rank-sync", .open = open_kubist, .write = write_kubist, .close = close_kubist,
     .mode = KUBIST_MPI_PER_RANK},
    {.name = "kubist-rank-async", .open = open_kubist, .write = write_kubist, .close = close_kubist,
     .mode = KUBIST_MPI_PER_RANK, .queue = 2},
    {.name = "kubist-node-sync", .open = open_kubist, .write = write_kubist, .close = close_kubist,
     .mode = KUBIST_MPI_PER_NODE},
    {.name = "kubist-node-async", .open = open_kubist, .write = write_kubist, .close = close_kubist,
     .mode = KUBIST_MPI_PER_NODE, .queue = 2},
};
enum { ALL_WAYS = sizeof WAYS / sizeof *WAYS };

/* The box that is read back, and the sampled fraction. */
static const double LOW[3] = {0.2, 0.2, 0.2}, HIGH[3] = {0.5, 0.5, 0.5};
static const double SHARE = 0.01;

/*
 * Whether a row is in the sample, by a hash of its identity as in a table, for ways without
 * samples.
 */
static int is_shown(double pid) {
  uint64_t mixed = (uint64_t)pid * 0x9E3779B97F4A7C15ULL;
  mixed = (mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9ULL;
  return (double)((mixed ^ (mixed >> 29)) >> 11) / 9007199254740992.0 < SHARE;
}

/* Reads the sampled rows with all columns from the files of a way, in the page cache. */
static int64_t show(State *state, const Way *way) {
  const int parts = way->parts(state);
  const int64_t n = parts == 1 ? state->n * state->ranks : state->n;
  double *columns[COLUMNS], sum = 0;
  int64_t shown = 0, *chosen = malloc((size_t)n * sizeof *chosen + 8);
  for (int c = 0; c < COLUMNS; c++)
    if ((columns[c] = malloc((size_t)n * sizeof(double) + 8)) == NULL || chosen == NULL) fail("memory");
  way->begin_reading(state, way);
  for (int64_t step = 1; step <= state->steps; step++)
    for (int part = 0; part < parts; part++) {
      int64_t found = 0;
      way->read(state, way, step, part, PID, columns[PID]);
      for (int c = X; c <= Z; c++) way->read(state, way, step, part, c, columns[c]);
      for (int64_t i = 0; i < n; i++) {
        int inside = is_shown(columns[PID][i]);
        for (int c = X; c <= Z && inside; c++) inside = columns[c][i] >= LOW[c] && columns[c][i] <= HIGH[c];
        if (inside) chosen[found++] = i;
      }
      for (int c = VELOCITY; c < COLUMNS && found > 0; c++) {
        if (c != PID) way->read(state, way, step, part, c, columns[c]);
        for (int64_t i = 0; i < found; i++) sum += columns[c][chosen[i]];
      }
      shown += found;
    }
  way->end_reading(state, way);
  for (int c = 0; c < COLUMNS; c++) free(columns[c]);
  free(chosen);
  if (!isfinite(sum)) fail("what was read is not what was written");
  return shown;
}

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

/* Moves the particles of a step, with some arithmetic in place of forces. */
static void compute(State *state, int64_t step, int64_t rounds) {
  for (int64_t i = 0; i < state->n; i++) {
    double force = state->columns[VELOCITY][i];
    for (int64_t round = 0; round < rounds; round++) force = sqrt(force * force + 1e-9);
    for (int c = X; c <= Z; c++) {
      double *x = &state->columns[c][i];
      *x += state->columns[VELOCITY + c][i] * 1e-3;
      *x -= *x >= 1 ? 1 : 0;
    }
    if (force < 0) fail("a root is negative");
    state->columns[TIME][i] = (double)step / (double)(state->steps + 1);
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
    state->columns[PID][i] = (double)(state->rank * state->n + i);
  }
}

static double slowest(double seconds) {
  double all;
  MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

/* Rounds of arithmetic per particle that take this many microseconds. */
static int64_t rounds_of(State *state, double work) {
  const int64_t tried = 200;
  double took;
  fill(state);
  compute(state, 1, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  compute(state, 1, tried);
  took = slowest(MPI_Wtime() - start);
  return state->n == 0 || took <= 0 ? 0 : (int64_t)(work * 1e-6 * (double)state->n * (double)tried / took);
}

/* Measures a way, and returns the mean seconds per step. */
static double measure(State *state, const Way *way, double copy, int64_t rounds) {
  double total = 0, worst = 0, bytes = 0, begin, shown_in = 0;
  int64_t shown = 0;
  long files = 0;
  fill(state);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  way->open(state, way);
  for (int64_t step = 1; step <= state->steps; step++) {
    compute(state, step, rounds);
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
    begin = MPI_Wtime();
    if (way->open == open_kubist) shown = show_kubist(state, way, LOW, HIGH, SHARE);
    else if (way->read != NULL) shown = show(state, way);
    shown_in = MPI_Wtime() - begin;
    count(state->folder, way->name, &bytes, &files);
    printf("%s %d %lld %.6f %.6f %.3f %.0f %ld %.2f %.4f %lld\n", way->name, state->ranks,
           (long long)(state->n * state->ranks), mean, worst, all, bytes, files, copy > 0 ? mean / copy : 1.0,
           shown_in, (long long)shown);
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return mean;
}

static int is_wanted(const char *name, char **names, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(name, names[i]) == 0) return 1;
  return count == 0;
}

int main(int argc, char **argv) {
  State state = {.steps = 20};
  double copy = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state.ranks);
  if (argc < 5) fail("insitu FOLDER PARTICLES STEPS WORK [WAY ...]");
  state.folder = argv[1];
  state.n = atoll(argv[2]) / state.ranks;
  state.steps = atoll(argv[3]);
  for (int c = 0; c < COLUMNS; c++) {
    state.columns[c] = malloc((size_t)state.n * sizeof(double) + 8);
    state.all[c] = state.rank == 0 ? malloc((size_t)state.n * (size_t)state.ranks * sizeof(double) + 8) : NULL;
    if (state.columns[c] == NULL) fail("memory");
  }
  const int64_t rounds = rounds_of(&state, atof(argv[4]));
  for (int way = 0; way < ALL_WAYS; way++) {
    if (!is_wanted(WAYS[way].name, argv + 5, argc - 5)) continue;
    const double mean = measure(&state, &WAYS[way], copy, rounds);
    if (strcmp(WAYS[way].name, "memcpy") == 0) copy = mean;
  }
  for (int c = 0; c < COLUMNS; c++) {
    free(state.columns[c]);
    free(state.all[c]);
  }
  MPI_Finalize();
  return 0;
}
