/*
 * Droplets in the first fork of an airway, as a T: a small solver for `make demo-insitu` without
 * OpenFOAM. Formulas define the flow, which drags the droplets (Stokes) while they fall. Droplets
 * that hit a wall stay there. Each rank has its own droplets, and writes them while it runs.
 *
 *     mpicc fork.c -o fork $(pkg-config --cflags --libs kubist) -lm
 *     mpirun -n 2 ./fork airway.kubist 60 2000
 *
 * Arguments: table, steps of the table, new droplets of a rank between two steps.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubist_mpi.h"

/* Metres: a trunk along x, 2 cm wide and deep, and branches along +y and -y. */
static const double HALF = 0.01, TRUNK = 0.1, FAR = 0.12, END = 0.11, SPEED = 1.0;
static const double STEP = 0.01, GRAVITY = 9.81, DENSITY = 1000, VISCOSITY = 1.8e-5;
enum { SUBSTEPS = 200 };

static const char *TABLE =
    "{\"columns\": {\"x\": {\"type\": \"f64\", \"unit\": \"m\"}, \"y\": {\"type\": \"f64\", \"unit\": \"m\"},"
    " \"z\": {\"type\": \"f64\", \"unit\": \"m\"}, \"U_x\": {\"type\": \"f64\", \"unit\": \"m/s\"},"
    " \"U_y\": {\"type\": \"f64\", \"unit\": \"m/s\"}, \"U_z\": {\"type\": \"f64\", \"unit\": \"m/s\"},"
    " \"d\": {\"type\": \"f64\", \"unit\": \"m\"}, \"origProcId\": \"i32\", \"origId\": \"i32\", \"active\": \"i32\","
    " \"time\": {\"type\": \"f64\", \"unit\": \"s\"}},"
    " \"dimensions\": {\"x\": [0, 0.12], \"y\": [-0.11, 0.11], \"z\": [0, 0.02], \"time\": [0, 1]},"
    " \"identity\": [\"origProcId\", \"origId\", \"time\"]}";

typedef struct Droplet {
  double place[3], velocity[3], diameter;
  int32_t proc, id, active;
} Droplet;

static uint64_t state;

static double uniform(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / 9007199254740992.0;
}

static void must(KubistStatus status, const char *message) {
  if (status == KUBIST_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", kubist_status_name(status), message == NULL ? kubist_message() : message);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Air that turns from the trunk into both branches; the flow is free of divergence. */
static void flow(const double *place, double *air) {
  const double x = place[0], y = place[1];
  memset(air, 0, 3 * sizeof *air);
  if (x < TRUNK) {
    air[0] = 1.5 * SPEED * (1 - y * y / (HALF * HALF));
  } else if (fabs(y) < HALF) {
    air[0] = SPEED * (FAR - x) / (FAR - TRUNK);
    air[1] = SPEED * y / (FAR - TRUNK);
  } else {
    air[1] = copysign(SPEED * HALF / (FAR - TRUNK), y);
  }
}

static int is_inside(const double *place) {
  const int trunk = place[0] <= TRUNK && fabs(place[1]) < HALF;
  const int branch = place[0] > TRUNK && place[0] < FAR;
  return place[2] > 0 && place[2] < 2 * HALF && (trunk || branch);
}

/* False when the droplet has left through the end of a branch. */
static int move(Droplet *droplet, double dt) {
  const double slow = DENSITY * droplet->diameter * droplet->diameter / (18 * VISCOSITY);
  double air[3];
  if (!droplet->active) return 1;
  flow(droplet->place, air);
  air[2] -= slow * GRAVITY;
  for (int axis = 0; axis < 3; axis++) {
    droplet->velocity[axis] = air[axis] + (droplet->velocity[axis] - air[axis]) * exp(-dt / slow);
    droplet->place[axis] += droplet->velocity[axis] * dt;
  }
  if (fabs(droplet->place[1]) > END) return 0;
  if (!is_inside(droplet->place)) {
    droplet->active = 0;
    memset(droplet->velocity, 0, sizeof droplet->velocity);
  }
  return 1;
}

static Droplet entered(int rank, int32_t id) {
  Droplet droplet = {.proc = rank, .id = id, .active = 1};
  droplet.place[1] = (2 * uniform() - 1) * HALF * 0.999;
  flow(droplet.place, droplet.velocity);
  /* The distance since the last step, because droplets enter continuously. */
  droplet.place[0] = uniform() * droplet.velocity[0] * STEP;
  droplet.place[2] = uniform() * 2 * HALF;
  /* 1 to 60 micrometres, as from a nebuliser. */
  droplet.diameter = fmin(6e-5, fmax(1e-6, 2e-5 * sqrt(-log(1 - uniform()))));
  return droplet;
}

static void put(const KubistMpi *run, const Droplet *droplets, int64_t n, const double *time) {
  static const char *NAMES[] = {"x", "y", "z", "U_x", "U_y", "U_z"};
  const uint64_t size = sizeof *droplets;
  for (int axis = 0; axis < 3; axis++) {
    must(kubist_put(run->writer, NAMES[axis], KUBIST_TYPE_F64, &droplets->place[axis], n, size), NULL);
    must(kubist_put(run->writer, NAMES[3 + axis], KUBIST_TYPE_F64, &droplets->velocity[axis], n, size), NULL);
  }
  must(kubist_put(run->writer, "d", KUBIST_TYPE_F64, &droplets->diameter, n, size), NULL);
  must(kubist_put(run->writer, "origProcId", KUBIST_TYPE_I32, &droplets->proc, n, size), NULL);
  must(kubist_put(run->writer, "origId", KUBIST_TYPE_I32, &droplets->id, n, size), NULL);
  must(kubist_put(run->writer, "active", KUBIST_TYPE_I32, &droplets->active, n, size), NULL);
  must(kubist_put(run->writer, "time", KUBIST_TYPE_F64, time, n, 0), NULL);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char *location = argc > 1 ? argv[1] : "airway.kubist";
  const int64_t steps = argc > 2 ? atoll(argv[2]) : 60, more = argc > 3 ? atoll(argv[3]) : 2000;
  state = 88172645463325252ULL + (uint64_t)rank;

  KubistMpi run;
  KubistMpiOptions options = {.size = sizeof options, .writer_options = "{\"queue\": 2}"};
  must(kubist_mpi_open(MPI_COMM_WORLD, location, TABLE, &options, &run), run.message);
  Droplet *droplets = calloc((size_t)(steps * more) + 1, sizeof *droplets);
  double *time = calloc((size_t)(steps * more) + 1, sizeof *time), waited = 0, worst = 0;
  int64_t n = 0;
  if (droplets == NULL || time == NULL) must(KUBIST_STATUS_UNAVAILABLE, "there is no memory for the droplets");
  const double began = MPI_Wtime();
  for (int64_t step = 1; step <= steps; step++) {
    for (int64_t i = 0; i < more; i++) droplets[n++] = entered(rank, (int32_t)((step - 1) * more + i));
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
      int stays = 1;
      for (int part = 0; part < SUBSTEPS && stays && droplets[i].active; part++)
        stays = move(&droplets[i], STEP / SUBSTEPS);
      if (stays) droplets[kept++] = droplets[i];
    }
    n = kept;
    for (int64_t i = 0; i < n; i++) time[i] = (double)step * STEP;
    const double begin = MPI_Wtime();
    must(kubist_begin_step(run.writer, step), NULL);
    put(&run, droplets, n, time);
    must(kubist_end_step(run.writer, NULL, NULL), NULL);
    const double took = MPI_Wtime() - begin;
    waited += took;
    worst = fmax(worst, took);
  }
  const double begin = MPI_Wtime();
  must(kubist_mpi_close(&run, 300.0), run.message);
  waited += MPI_Wtime() - begin;
  double mine[3] = {waited, MPI_Wtime() - began, worst}, slowest[3];
  MPI_Reduce(mine, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("fork: %lld steps to %s; the slowest rank waited %g s of %g s, %g s a step, %g s at worst\n",
           (long long)steps, location, slowest[0], slowest[1], slowest[0] / (double)(steps > 0 ? steps : 1),
           slowest[2]);
  free(droplets);
  free(time);
  MPI_Finalize();
  return 0;
}
