/*
 * Droplets that drift through a tube, on any number of ranks: each step is written to a table
 * while the simulation runs. View it with `kubist view droplets.kubist`.
 *
 *     mpicc droplets.c -o droplets $(pkg-config --cflags --libs kubist)
 *     mpirun -n 4 ./droplets droplets.kubist 20 100000
 *
 * Arguments: table, steps, droplets per rank; then optionally the mode (auto, rank, node,
 * dedicated) and a checkpoint to continue from.
 */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubist_mpi.h"

static const char *TABLE =
    "{\"columns\": {\"x\": {\"type\": \"f64\", \"unit\": \"m\"}, \"y\": \"f64\", \"time\": \"f64\","
    "              \"diameter\": \"f32\", \"pid\": \"i64\", \"rank\": \"i32\", \"deposited\": \"bool\"},"
    " \"dimensions\": {\"x\": [0, 1], \"y\": [0, 1], \"time\": [0, 1]},"
    " \"identity\": [\"pid\", \"time\"]}";

/* Columns may be members of structs. */
typedef struct Droplet {
  double x, y;
  float diameter;
  int64_t pid;
  uint8_t deposited;
} Droplet;

/* A batch system's signal sets it when time is nearly up: see examples/slurm. */
static volatile sig_atomic_t told;

static void tell(int number) { told = number; }

static int is_over(MPI_Comm comm) {
  int mine = told != 0, all;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, comm);
  return all;
}

/*
 * `message` is from a collective call. Null means this rank's last error, which cannot be an
 * argument, because arguments may be evaluated before the call.
 */
static void must(KubistStatus status, const char *message) {
  if (status == KUBIST_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", kubist_status_name(status), message == NULL ? kubist_message() : message);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void move(Droplet *droplet) {
  if (droplet->deposited) return;
  droplet->x += 0.015625;
  droplet->deposited = droplet->x > 0.9375;
}

static int mode_of(const char *name) {
  const char *names[] = {"auto", "rank", "node", "dedicated"};
  const int modes[] = {KUBIST_MPI_AUTO, KUBIST_MPI_PER_RANK, KUBIST_MPI_PER_NODE, KUBIST_MPI_DEDICATED};
  for (int n = 0; n < 4; n++)
    if (strcmp(name, names[n]) == 0) return modes[n];
  return -1;
}

/* The ranks of `comm` compute and write, up to `steps`. */
static void compute(MPI_Comm comm, KubistWriter *writer, int64_t n, int64_t checkpoint, int64_t steps) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  Droplet *droplets = calloc((size_t)n + 1, sizeof *droplets);
  double *time = calloc((size_t)n + 1, sizeof *time);
  int32_t *ranks = calloc((size_t)n + 1, sizeof *ranks);
  for (int64_t i = 0; i < n; i++) {
    const int64_t pid = rank * n + i;
    droplets[i] = (Droplet){(double)(pid % 64) / 128, (double)(pid % 1024) / 1024, (float)(pid % 7), pid, 0};
  }
  for (int64_t step = 1; step <= steps && !is_over(comm); step++) {
    for (int64_t i = 0; i < n; i++) {
      move(&droplets[i]);
      time[i] = (double)step / 1024;
      ranks[i] = rank;
    }
    if (step <= checkpoint) continue;
    must(kubist_begin_step(writer, step), NULL);
    must(kubist_put(writer, "x", KUBIST_TYPE_F64, &droplets->x, n, sizeof *droplets), NULL);
    must(kubist_put(writer, "y", KUBIST_TYPE_F64, &droplets->y, n, sizeof *droplets), NULL);
    must(kubist_put(writer, "diameter", KUBIST_TYPE_F32, &droplets->diameter, n, sizeof *droplets), NULL);
    must(kubist_put(writer, "pid", KUBIST_TYPE_I64, &droplets->pid, n, sizeof *droplets), NULL);
    must(kubist_put(writer, "deposited", KUBIST_TYPE_BOOL, &droplets->deposited, n, sizeof *droplets), NULL);
    must(kubist_put(writer, "time", KUBIST_TYPE_F64, time, n, 0), NULL);
    must(kubist_put(writer, "rank", KUBIST_TYPE_I32, ranks, n, 0), NULL);
    must(kubist_end_step(writer, NULL, NULL), NULL);
  }
  free(droplets);
  free(time);
  free(ranks);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  signal(SIGUSR1, tell);
  const char *location = argc > 1 ? argv[1] : "droplets.kubist";
  const int64_t steps = argc > 2 ? atoll(argv[2]) : 20, n = argc > 3 ? atoll(argv[3]) : 100000;
  const int64_t checkpoint = argc > 5 ? atoll(argv[5]) : 0;

  KubistMpiOptions options = {.size = sizeof options, .restart = argc > 5, .restart_after = checkpoint};
  if (argc > 4) options.mode = mode_of(argv[4]);
  options.writer_options = "{\"queue\": 2, \"timeout_seconds\": 60}";
  KubistMpi run;
  must(kubist_mpi_open(MPI_COMM_WORLD, location, TABLE, &options, &run), run.message);
  /* A dedicated rank computes nothing, and its close returns when all have closed. */
  if (run.solvers != MPI_COMM_NULL) compute(run.solvers, run.writer, n, checkpoint, steps);
  must(kubist_mpi_close(&run, 300.0), run.message);
  MPI_Finalize();
  return 0;
}
