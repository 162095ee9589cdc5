/*
 * Writes steps within a budget, on any number of ranks; particles move between ranks from step to
 * step. Arguments: table, mode (rank, node, dedicated), options of the writer.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubist_mpi.h"

enum { PARTICLES = 6000, STEPS = 4 };

static const char *TABLE =
    "{\"columns\": {\"x\": \"f64\", \"time\": \"f64\", \"pid\": \"i64\", \"hot\": \"bool\"},"
    " \"dimensions\": {\"x\": [0, 1], \"time\": [0, 8]}, \"identity\": [\"pid\", \"time\"]}";

int main(int argc, char **argv) {
  static double x[PARTICLES], time[PARTICLES];
  static int64_t pid[PARTICLES];
  static uint8_t hot[PARTICLES];
  KubistMpiOptions options = {.size = sizeof options, .collective_seconds = 60};
  KubistMpi run;
  KubistReport report = {.size = sizeof report};
  int rank, ranks = 0, failed = 0;
  uint64_t kept = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  options.mode = strcmp(argv[2], "node") == 0        ? KUBIST_MPI_PER_NODE
                 : strcmp(argv[2], "dedicated") == 0 ? KUBIST_MPI_DEDICATED
                                                     : KUBIST_MPI_PER_RANK;
  options.writer_options = argv[3];
  if (kubist_mpi_open(MPI_COMM_WORLD, argv[1], TABLE, &options, &run) != KUBIST_STATUS_OK) {
    if (rank == 0) printf("%s\n", run.message);
    MPI_Finalize();
    return 1;
  }
  if (run.solvers != MPI_COMM_NULL) {
    MPI_Comm_rank(run.solvers, &rank);
    MPI_Comm_size(run.solvers, &ranks);
  } else if (kubist_mpi_end_step(&run, NULL, NULL) != KUBIST_STATUS_UNAVAILABLE) {
    /* A dedicated rank has no step to end. */
    failed = 1;
  }
  for (int64_t step = 1; step <= (ranks == 0 ? 0 : STEPS) && !failed; step++) {
    int64_t n = 0;
    for (int64_t i = 0; i < PARTICLES; i++) {
      if ((i + step) % ranks != rank) continue;
      x[n] = (double)(i % 1000) / 1000;
      time[n] = (double)step;
      pid[n] = i;
      hot[n] = i % 1500 == 7;
      /* Only the third step has no row that is always kept. */
      if (step == 3) x[n] /= 1000;
      n++;
    }
    kubist_begin_step(run.writer, step);
    kubist_put(run.writer, "x", KUBIST_TYPE_F64, x, n, 0);
    kubist_put(run.writer, "pid", KUBIST_TYPE_I64, pid, n, 0);
    kubist_put(run.writer, "hot", KUBIST_TYPE_BOOL, hot, n, 0);
    if (step == 2) {
      /* One rank lacks a column, so all ranks get an error and abandon the step. */
      const int is_lacking = rank == ranks - 1;
      if (!is_lacking) kubist_put(run.writer, "time", KUBIST_TYPE_F64, time, n, 0);
      const KubistStatus status = kubist_mpi_end_step(&run, NULL, NULL);
      failed = status != (is_lacking ? KUBIST_STATUS_INVALID_INPUT : KUBIST_STATUS_UNAVAILABLE) ||
               strstr(run.message, is_lacking ? "time" : "step 2") == NULL ||
               kubist_abandon_step(run.writer) != KUBIST_STATUS_OK;
    } else {
      kubist_put(run.writer, "time", KUBIST_TYPE_F64, time, n, 0);
      /* No rank can end it alone. */
      failed = kubist_end_step(run.writer, NULL, NULL) != KUBIST_STATUS_INVALID_INPUT ||
               kubist_mpi_end_step(&run, NULL, &report) != KUBIST_STATUS_OK;
      kept += report.rows;
    }
    if (failed) printf("rank %d, step %d: %s\n", rank, (int)step, run.message);
  }
  MPI_Allreduce(MPI_IN_PLACE, &kept, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (kubist_mpi_close(&run, 60.0) != KUBIST_STATUS_OK) printf("%s\n", run.message), failed = 1;
  if (rank == 0) printf("kept %llu\n", (unsigned long long)kept);
  MPI_Finalize();
  return failed;
}
