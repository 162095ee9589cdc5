/*
 * Declarations shared by the ways of writing: the particles of a rank, and the interface of a
 * way.
 */

#ifndef INSITU_H
#define INSITU_H

#include <stddef.h>
#include <stdint.h>

#include "kubist_mpi.h"

enum { COLUMNS = 9, X = 0, Y = 1, Z = 2, VELOCITY = 3, PID = 7, TIME = 8 };
static const char *const NAMES[COLUMNS] = {"x", "y", "z", "ux", "uy", "uz", "diameter", "pid", "time"};

typedef struct State {
  int rank, ranks;
  int64_t n, steps; /* particles of this rank */
  double *columns[COLUMNS];
  double *all[COLUMNS]; /* of rank 0, for all ranks */
  char *folder;
} State;

/* A way of writing. Its bytes are durable when `write` returns, or else when `close` returns. */
typedef struct Way {
  const char *name;
  void (*open)(State *, const struct Way *);
  void (*write)(State *, const struct Way *, int64_t step);
  void (*close)(State *, const struct Way *);
  /* Reading back by one process: the number of parts of a step, and a column of a part. */
  int (*parts)(const State *);
  void (*begin_reading)(State *, const struct Way *);
  void (*read)(State *, const struct Way *, int64_t step, int part, int column, double *values);
  void (*end_reading)(State *, const struct Way *);
  int mode, queue;
} Way;

void fail(const char *what);
void path_of(const State *state, const Way *way, char *path, size_t size, int rank, int64_t step);
void nothing(State *state, const Way *way);
int one_part(const State *state);
int part_of_each_rank(const State *state);

/* plain.c: text and binary files. */
void write_csv(State *, const Way *, int64_t step);
void read_csv(State *, const Way *, int64_t step, int part, int column, double *values);
void end_csv(State *, const Way *);
void write_binary(State *, const Way *, int64_t step);
void read_binary(State *, const Way *, int64_t step, int part, int column, double *values);
void durable_file(int descriptor);

/* kubist.c */
void open_kubist(State *, const Way *);
void write_kubist(State *, const Way *, int64_t step);
void close_kubist(State *, const Way *);
int64_t show_kubist(State *, const Way *, const double low[3], const double high[3], double share);

#ifdef WITH_HDF5
void open_hdf5(State *, const Way *);
void write_hdf5(State *, const Way *, int64_t step);
void close_hdf5(State *, const Way *);
void begin_hdf5(State *, const Way *);
void read_hdf5(State *, const Way *, int64_t step, int part, int column, double *values);
#endif

#ifdef WITH_ADIOS2
void open_adios2(State *, const Way *);
void write_adios2(State *, const Way *, int64_t step);
void close_adios2(State *, const Way *);
void begin_adios2(State *, const Way *);
void read_adios2(State *, const Way *, int64_t step, int part, int column, double *values);
#endif

#endif
