/* Parallel HDF5: one file with a data set per column and step, written collectively. */

#ifdef WITH_HDF5

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <hdf5.h>

#include "insitu.h"

static hid_t file, transfer;

static hid_t good(hid_t id, const char *doing) {
  if (id < 0) fail(doing);
  return id;
}

void open_hdf5(State *state, const Way *way) {
  char path[4096];
  path_of(state, way, path, sizeof path, 0, 0);
  const hid_t access = good(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  file = good(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), path);
  H5Pclose(access);
  transfer = good(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate");
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
}

void write_hdf5(State *state, const Way *way, int64_t step) {
  char name[64], path[4096];
  const hsize_t all = (hsize_t)(state->n * state->ranks), mine = (hsize_t)state->n;
  const hsize_t begin = (hsize_t)(state->rank * state->n);
  const hid_t space = good(H5Screate_simple(1, &all, NULL), "H5Screate_simple");
  const hid_t memory = good(H5Screate_simple(1, &mine, NULL), "H5Screate_simple");
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &mine, NULL);
  snprintf(name, sizeof name, "%lld", (long long)step);
  const hid_t group = good(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "H5Gcreate2");
  for (int c = 0; c < COLUMNS; c++) {
    const hid_t data =
        good(H5Dcreate2(group, NAMES[c], H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), NAMES[c]);
    good(H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, transfer, state->columns[c]), "H5Dwrite");
    H5Dclose(data);
  }
  H5Gclose(group);
  H5Sclose(space);
  H5Sclose(memory);
  good(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  /*
   * Syncs explicitly, so that durability is the same for all ways, whatever the library's driver.
   */
  path_of(state, way, path, sizeof path, 0, 0);
  const int descriptor = open(path, O_WRONLY);
  if (descriptor < 0) fail(path);
  durable_file(descriptor);
  close(descriptor);
}

void close_hdf5(State *state, const Way *way) {
  (void)state, (void)way;
  H5Pclose(transfer);
  H5Fclose(file);
}

void begin_hdf5(State *state, const Way *way) {
  char path[4096];
  path_of(state, way, path, sizeof path, 0, 0);
  file = good(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), path);
  transfer = good(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate");
}

void read_hdf5(State *state, const Way *way, int64_t step, int part, int column, double *values) {
  char name[64];
  (void)state, (void)way, (void)part;
  snprintf(name, sizeof name, "%lld/%s", (long long)step, NAMES[column]);
  const hid_t data = good(H5Dopen2(file, name, H5P_DEFAULT), name);
  good(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, transfer, values), "H5Dread");
  H5Dclose(data);
}

#else
typedef int no_hdf5;
#endif
