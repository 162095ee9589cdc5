/* ADIOS2 from PyPI, without MPI: each rank appends its steps to its own BP file. */

#ifdef WITH_ADIOS2

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <adios2_c.h>

#include "insitu.h"

static adios2_adios *adios;
static adios2_engine *engine;
static adios2_variable *variables[COLUMNS];
/* For reading: the file of each rank. */
static adios2_engine **engines;
static adios2_io **ios;

static void good(adios2_error error, const char *doing) {
  if (error != adios2_error_none) fail(doing);
}

void open_adios2(State *state, const Way *way) {
  char path[4096];
  const size_t mine = (size_t)state->n, zero = 0;
  path_of(state, way, path, sizeof path, state->rank, 0);
  if ((adios = adios2_init_serial()) == NULL) fail("adios2_init_serial");
  adios2_io *io = adios2_declare_io(adios, "particles");
  for (int c = 0; c < COLUMNS; c++)
    variables[c] = adios2_define_variable(io, NAMES[c], adios2_type_double, 1, &mine, &zero, &mine,
                                          adios2_constant_dims_true);
  if ((engine = adios2_open(io, path, adios2_mode_write)) == NULL) fail(path);
}

void write_adios2(State *state, const Way *way, int64_t step) {
  char path[4096 + 16];
  adios2_step_status status;
  (void)step;
  good(adios2_begin_step(engine, adios2_step_mode_append, -1.0f, &status), "adios2_begin_step");
  for (int c = 0; c < COLUMNS; c++)
    good(adios2_put(engine, variables[c], state->columns[c], adios2_mode_deferred), "adios2_put");
  good(adios2_end_step(engine), "adios2_end_step");
  path_of(state, way, path, 4096, state->rank, 0);
  strcat(path, "/data.0");
  const int descriptor = open(path, O_WRONLY);
  if (descriptor < 0) fail(path);
  durable_file(descriptor);
  close(descriptor);
}

void close_adios2(State *state, const Way *way) {
  (void)state, (void)way;
  good(adios2_close(engine), "adios2_close");
  good(adios2_finalize(adios), "adios2_finalize");
}

void begin_adios2(State *state, const Way *way) {
  char path[4096], name[32];
  engines = calloc((size_t)state->ranks, sizeof *engines);
  ios = calloc((size_t)state->ranks, sizeof *ios);
  if (engines == NULL || ios == NULL || (adios = adios2_init_serial()) == NULL) fail("adios2_init_serial");
  for (int rank = 0; rank < state->ranks; rank++) {
    path_of(state, way, path, sizeof path, rank, 0);
    snprintf(name, sizeof name, "of-%d", rank);
    ios[rank] = adios2_declare_io(adios, name);
    engines[rank] = adios2_open(ios[rank], path, adios2_mode_readRandomAccess);
    if (engines[rank] == NULL) fail(path);
  }
}

void read_adios2(State *state, const Way *way, int64_t step, int part, int column, double *values) {
  adios2_variable *variable = adios2_inquire_variable(ios[part], NAMES[column]);
  (void)state, (void)way;
  if (variable == NULL) fail(NAMES[column]);
  good(adios2_set_step_selection(variable, (size_t)step - 1, 1), "adios2_set_step_selection");
  good(adios2_get(engines[part], variable, values, adios2_mode_sync), "adios2_get");
}

#else
typedef int no_adios2;
#endif
