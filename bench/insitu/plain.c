/*
 * Text and binary files, made durable with fdatasync: gathered on rank 0, or one per rank.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "insitu.h"

static void gather(State *state) {
  for (int c = 0; c < COLUMNS; c++)
    MPI_Gather(state->columns[c], (int)state->n, MPI_DOUBLE, state->all[c], (int)state->n, MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
}

void durable_file(int descriptor) {
  if (fdatasync(descriptor) != 0) fail("fdatasync");
}

void write_csv(State *state, const Way *way, int64_t step) {
  char path[4096];
  FILE *text;
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
  /* As in the paper: all ranks wait for the writing rank. */
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The step that was parsed last: a line has all columns. */
static double *parsed[COLUMNS];
static int64_t parsed_step;

void read_csv(State *state, const Way *way, int64_t step, int part, int column, double *values) {
  const int64_t all = state->n * state->ranks;
  (void)part;
  if (parsed_step != step) {
    char path[4096], *text, *at;
    path_of(state, way, path, sizeof path, 0, step);
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path);
    const size_t length = (size_t)ftell(file);
    rewind(file);
    if ((text = malloc(length + 1)) == NULL || fread(text, 1, length, file) != length) fail(path);
    text[length] = '\0';
    fclose(file);
    for (int c = 0; c < COLUMNS; c++)
      if (parsed[c] == NULL && (parsed[c] = malloc((size_t)all * sizeof(double) + 8)) == NULL) fail("memory");
    at = text;
    for (int64_t i = 0; i < all; i++)
      for (int c = 0; c < COLUMNS; c++) {
        parsed[c][i] = strtod(at, &at);
        at++;
      }
    free(text);
    parsed_step = step;
  }
  memcpy(values, parsed[column], (size_t)all * sizeof(double));
}

void end_csv(State *state, const Way *way) {
  (void)state, (void)way;
  for (int c = 0; c < COLUMNS; c++) {
    free(parsed[c]);
    parsed[c] = NULL;
  }
  parsed_step = 0;
}

static void write_whole(int descriptor, const void *bytes, size_t length) {
  for (const char *at = bytes; length > 0;) {
    ssize_t some = write(descriptor, at, length);
    if (some < 0) fail("write");
    at += some;
    length -= (size_t)some;
  }
}

void write_binary(State *state, const Way *way, int64_t step) {
  char path[4096];
  const int gathered = way->mode == 0;
  if (gathered) gather(state);
  if (!gathered || state->rank == 0) {
    path_of(state, way, path, sizeof path, state->rank, step);
    const int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (file < 0) fail(path);
    const size_t bytes = (size_t)state->n * (gathered ? (size_t)state->ranks : 1) * sizeof(double);
    for (int c = 0; c < COLUMNS; c++) write_whole(file, gathered ? state->all[c] : state->columns[c], bytes);
    durable_file(file);
    close(file);
  }
  if (gathered) MPI_Barrier(MPI_COMM_WORLD);
}

void read_binary(State *state, const Way *way, int64_t step, int part, int column, double *values) {
  char path[4096];
  const size_t bytes = (size_t)(way->parts(state) == 1 ? state->n * state->ranks : state->n) * sizeof(double);
  path_of(state, way, path, sizeof path, part, step);
  const int file = open(path, O_RDONLY);
  if (file < 0) fail(path);
  for (size_t done = 0; done < bytes;) {
    ssize_t some = pread(file, (char *)values + done, bytes - done, (off_t)((size_t)column * bytes + done));
    if (some <= 0) fail(path);
    done += (size_t)some;
  }
  close(file);
}
