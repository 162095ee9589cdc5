/*
 * Kubist for MPI programs, based on kubist.h. Compile it with your mpicc; libkubist does not use
 * MPI.
 *
 *     KubistMpi run;
 *     kubist_mpi_open(MPI_COMM_WORLD, "run.kubist", table_options, NULL, &run);
 *     kubist_begin_step(run.writer, step);         each rank independently, as without MPI
 *     kubist_put(run.writer, "x", KUBIST_TYPE_F64, x, n, 0);
 *     kubist_end_step(run.writer, NULL, NULL);
 *     kubist_mpi_close(&run, 60.0);
 *
 * Opening and closing are collective; calls between them are not. With a budget (writer options
 * such as "budget_bytes_per_step"), all ranks end a step with the collective kubist_mpi_end_step
 * instead of kubist_end_step. A rank without particles also begins and ends each step, with or
 * without columns. Only the thread that calls these functions calls MPI.
 *
 * Modes: each rank writes to the table itself (KUBIST_MPI_PER_RANK). Or the ranks of a node write
 * into a ring in shared memory, and a thread of its first rank commits (KUBIST_MPI_PER_NODE), or
 * its last rank, which does nothing else (KUBIST_MPI_DEDICATED). A step is complete once all
 * ranks have ended or abandoned it, so no rank may skip a step that another one ends.
 *
 * A dedicated rank has no writer. The other ranks use the communicator run.solvers, and all
 * close:
 *
 *     if (run.solvers != MPI_COMM_NULL) compute(run.solvers, run.writer);
 *     kubist_mpi_close(&run, 60.0);            a dedicated rank returns when all have closed
 */

#ifndef KUBIST_MPI_H
#define KUBIST_MPI_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubist.h"

/* Which ranks commit. */
enum {
  KUBIST_MPI_AUTO = 0, /* per rank with up to 4 ranks on a node, otherwise per node */
  KUBIST_MPI_PER_RANK = 1,
  KUBIST_MPI_PER_NODE = 2,
  KUBIST_MPI_DEDICATED = 3, /* per node, by a rank that does nothing else; needs two ranks on each node */
};

/*
 * Zero means the default, except for size. All options but writer_options are those of the first
 * rank.
 */
typedef struct KubistMpiOptions {
  uint64_t size; /* sizeof(KubistMpiOptions) */
  int mode;
  uint64_t lane_bytes;        /* of each rank in the ring; 0: 16 MiB */
  const char *writer_options; /* JSON as for kubist_writer_open, without a name; may be null */
  int restart;                /* 1: retract steps after restart_after at the start */
  int64_t restart_after;
  double collective_seconds; /* time that a collective call waits for other ranks; 0: 600 */
} KubistMpiOptions;

/*
 * State that MPI_Finalize releases before the memory of the ring, if the run was not closed.
 */
typedef struct KubistMpiKept {
  KubistLeader *leader; /* or null: this rank has a lane */
  void *memory;
  uint64_t bytes;
  uint32_t lane;
} KubistMpiKept;

typedef struct KubistMpi {
  KubistTable *table;
  KubistWriter *writer; /* of this rank; null in a dedicated one */
  KubistLeader *leader; /* of this node, in the rank that runs it */
  int mode;
  MPI_Comm solvers; /* the computing ranks, for their own use; MPI_COMM_NULL in a dedicated one */
  MPI_Comm comm, node;
  MPI_Win window;
  int at_end; /* key of the attribute that MPI_Finalize deletes */
  KubistMpiKept *kept;
  double patience;     /* time that a collective call waits for other ranks */
  int is_torn;         /* a rank is missing: no further collective call is possible */
  char message[1024];  /* why a collective call failed */
} KubistMpi;

/*
 * Waits until all ranks have joined at most two requests; `more` seconds are added to the
 * patience.
 */
static inline KubistStatus kubist_mpi_await(KubistMpi *run, MPI_Request *requests, int count, double more) {
  const double end = MPI_Wtime() + run->patience + (more > 0.0 ? more : 0.0);
  MPI_Status statuses[2];
  int done = 0;
  while (!done) {
    MPI_Testall(count, requests, &done, statuses);
    if (done || MPI_Wtime() < end) continue;
    run->is_torn = 1;
    snprintf(run->message, sizeof run->message,
             "a rank did not come to a collective call within %g s: it has died, or does something else", run->patience);
    return KUBIST_STATUS_UNAVAILABLE;
  }
  return KUBIST_STATUS_OK;
}

/*
 * Gives all ranks the worst status of any rank, with its message. Memory that a missing rank
 * could still write to is not freed.
 */
static inline KubistStatus kubist_mpi_agree_within(KubistMpi *run, MPI_Comm comm, KubistStatus status, double more) {
  struct Word {
    int status, rank;
  } *mine, *worst;
  char *message;
  MPI_Request request;
  KubistStatus ended;
  if (run->is_torn) return KUBIST_STATUS_UNAVAILABLE;
  mine = (struct Word *)calloc(1, 2 * sizeof *mine + sizeof run->message);
  if (mine == NULL) MPI_Abort(comm, 1);
  worst = mine + 1;
  message = (char *)(worst + 1);
  mine->status = (int)status;
  MPI_Comm_rank(comm, &mine->rank);
  MPI_Iallreduce(mine, worst, 1, MPI_2INT, MPI_MAXLOC, comm, &request);
  ended = kubist_mpi_await(run, &request, 1, more);
  if (ended == KUBIST_STATUS_OK && worst->status != KUBIST_STATUS_OK) {
    if (mine->rank == worst->rank && status != KUBIST_STATUS_OK && run->message[0] == '\0')
      snprintf(run->message, sizeof run->message, "rank %d: %.980s", mine->rank, kubist_message());
    memcpy(message, run->message, sizeof run->message);
    MPI_Ibcast(message, (int)sizeof run->message, MPI_CHAR, worst->rank, comm, &request);
    ended = kubist_mpi_await(run, &request, 1, 0.0);
    if (ended == KUBIST_STATUS_OK) {
      memcpy(run->message, message, sizeof run->message);
      ended = (KubistStatus)worst->status;
    }
  }
  if (!run->is_torn) free(mine);
  return ended;
}

static inline KubistStatus kubist_mpi_agree(KubistMpi *run, MPI_Comm comm, KubistStatus status) {
  return kubist_mpi_agree_within(run, comm, status, 0.0);
}

/*
 * Detects a program that another MPI's mpirun started: each process then sees a world of size 1.
 */
static inline KubistStatus kubist_mpi_check_launcher(KubistMpi *run) {
  const char *names[][2] = {{"OMPI_COMM_WORLD_SIZE", "Open MPI"}, {"PMI_SIZE", "MPICH or one like it"}};
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int size, length;
  size_t n;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > 1) return KUBIST_STATUS_OK;
  for (n = 0; n < 2; n++) {
    const char *started = getenv(names[n][0]);
    if (started == NULL || atoi(started) <= 1) continue;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n,")] = '\0';
    snprintf(run->message, sizeof run->message,
             "this program is of %.200s, and was started as one of %d processes by %s: start it with its own mpirun",
             library, atoi(started), names[n][1]);
    return KUBIST_STATUS_INVALID_INPUT;
  }
  return KUBIST_STATUS_OK;
}

/* Writer options with its name; the caller frees them. */
static inline char *kubist_mpi_named(const KubistMpi *run, const char *options, int number) {
  const char *kind = run->mode == KUBIST_MPI_PER_RANK ? "rank" : "node";
  const char *dedicated = run->mode == KUBIST_MPI_DEDICATED ? ", \"dedicated\": true" : "";
  const char *rest = options == NULL ? "" : options;
  size_t length;
  char *named;
  rest += strspn(rest, " \t\r\n");
  if (*rest == '{') rest++;
  rest += strspn(rest, " \t\r\n");
  if (*rest == '\0') rest = "}";
  length = strlen(rest) + 100;
  named = (char *)malloc(length);
  if (named != NULL)
    snprintf(named, length, "{\"name\": \"%s-%d\", \"tokens\": true, \"shared\": true%s%s%s", kind, number,
             dedicated, *rest == '}' ? "" : ", ", rest);
  return named;
}

/* Without these options, the writer would have another name and no tokens. */
static inline KubistStatus kubist_mpi_check_named(KubistMpi *run, const char *named) {
  if (named != NULL) return KUBIST_STATUS_OK;
  snprintf(run->message, sizeof run->message, "out of memory for the options");
  return KUBIST_STATUS_UNAVAILABLE;
}

/* Ends a leader that was not closed, or informs it that this rank has ended. */
static inline int kubist_mpi_end_unclosed(MPI_Comm comm, int key, void *value, void *extra) {
  KubistMpiKept *kept = (KubistMpiKept *)value;
  (void)comm;
  (void)key;
  (void)extra;
  if (kept->memory != NULL) kubist_ring_leave(kept->memory, kept->bytes, kept->lane);
  kubist_leader_abort(kept->leader);
  free(kept);
  return MPI_SUCCESS;
}

/* Lets MPI_Finalize release this rank's part of the ring of an unclosed run. */
static inline KubistStatus kubist_mpi_keep(KubistMpi *run, void *memory, uint64_t bytes, int lane) {
  run->kept = (KubistMpiKept *)malloc(sizeof *run->kept);
  if (run->kept == NULL) {
    snprintf(run->message, sizeof run->message, "out of memory for the state that MPI_Finalize releases");
    return KUBIST_STATUS_UNAVAILABLE;
  }
  run->kept->leader = run->leader;
  run->kept->memory = run->leader == NULL ? memory : NULL;
  run->kept->bytes = bytes;
  run->kept->lane = (uint32_t)lane;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, kubist_mpi_end_unclosed, &run->at_end, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, run->at_end, run->kept);
  return KUBIST_STATUS_OK;
}

/* Frees all resources, collectively. */
static inline void kubist_mpi_release(KubistMpi *run) {
  kubist_writer_abort(run->writer);
  if (run->kept != NULL) {
    run->kept->leader = run->leader;
    run->kept->memory = NULL;
    MPI_Comm_delete_attr(MPI_COMM_SELF, run->at_end);
    MPI_Comm_free_keyval(&run->at_end);
  } else {
    kubist_leader_abort(run->leader);
  }
  run->kept = NULL;
  kubist_table_close(run->table);
  /* The collective free would hang if a rank is missing. */
  if (run->window != MPI_WIN_NULL && !run->is_torn) MPI_Win_free(&run->window);
  if (run->node != MPI_COMM_NULL && !run->is_torn) MPI_Comm_free(&run->node);
  if (run->solvers != MPI_COMM_NULL && !run->is_torn) MPI_Comm_free(&run->solvers);
  if (run->comm != MPI_COMM_NULL && !run->is_torn) MPI_Comm_free(&run->comm);
  run->comm = run->solvers = MPI_COMM_NULL;
  run->writer = NULL;
  run->leader = NULL;
  run->table = NULL;
}

/* The ring, its leader, and this rank's lane. */
static inline KubistStatus kubist_mpi_open_node(KubistMpi *run, const KubistMpiOptions *options, int node_number) {
  KubistStatus status = KUBIST_STATUS_OK;
  uint64_t lane = options->lane_bytes == 0 ? (uint64_t)16 << 20 : options->lane_bytes, bytes;
  MPI_Aint size;
  void *memory = NULL;
  int rank, lanes, leader = 0, unit;
  char *named;
  MPI_Comm_rank(run->node, &rank);
  MPI_Comm_size(run->node, &lanes);
  if (run->mode == KUBIST_MPI_DEDICATED) leader = --lanes;
  bytes = kubist_ring_bytes((uint32_t)lanes, lane);
  /* A failed allocation must not end the job. */
  MPI_Comm_set_errhandler(run->node, MPI_ERRORS_RETURN);
  if (bytes > (uint64_t)INT64_MAX ||
      MPI_Win_allocate_shared(rank == leader ? (MPI_Aint)bytes : 0, 1, MPI_INFO_NULL, run->node, &memory, &run->window) !=
          MPI_SUCCESS ||
      MPI_Win_shared_query(run->window, leader, &size, &unit, &memory) != MPI_SUCCESS) {
    snprintf(run->message, sizeof run->message,
             "the ranks of a node cannot share %llu bytes: enlarge /dev/shm, or reduce lane_bytes",
             (unsigned long long)bytes);
    status = KUBIST_STATUS_UNAVAILABLE;
  }
  status = kubist_mpi_agree(run, run->comm, status);
  if (status != KUBIST_STATUS_OK) {
    /* Freeing a window is collective, and some ranks may have none. */
    run->window = MPI_WIN_NULL;
    return status;
  }
  named = kubist_mpi_named(run, options->writer_options, node_number);
  status = kubist_mpi_agree(run, run->comm, kubist_mpi_check_named(run, named));
  if (status == KUBIST_STATUS_OK) {
    if (rank == leader)
      status = kubist_leader_start(run->table, named, memory, bytes, (uint32_t)lanes, &run->leader);
    status = kubist_mpi_agree(run, run->comm, status);
  }
  if (status == KUBIST_STATUS_OK) {
    if (run->solvers != MPI_COMM_NULL)
      status = kubist_writer_attach(run->table, named, memory, bytes, (uint32_t)rank, &run->writer);
    if (status == KUBIST_STATUS_OK) status = kubist_mpi_keep(run, memory, bytes, rank);
    status = kubist_mpi_agree(run, run->comm, status);
  }
  free(named);
  return status;
}

/*
 * Retracts the later steps once the old writers have ended, and declares this job's writers for
 * the following steps. This job's own names are already free.
 */
static inline KubistStatus kubist_mpi_take_back(KubistMpi *run, const KubistMpiOptions *options, int count) {
  const char *kind = run->mode == KUBIST_MPI_PER_RANK ? "rank" : "node";
  char words[128];
  KubistStatus status;
  snprintf(words, sizeof words, "{\"kind\": \"%s\", \"count\": %d}", kind, count);
  status = kubist_await_writers(run->table, words);
  if (status != KUBIST_STATUS_OK) return status;
  status = kubist_retract_after(run->table, options->restart_after, NULL);
  if (status != KUBIST_STATUS_OK) return status;
  snprintf(words, sizeof words, "{\"count\": %d, \"after\": %lld}", count, (long long)options->restart_after);
  return kubist_declare_writers(run->table, words);
}

/*
 * Opens the table for all ranks of `comm`, collectively. The first rank creates it if necessary,
 * unless `table_options`, those of kubist_table_create, are null. `options` may be null. All
 * ranks return the same status; run->message has the reason.
 */
static inline KubistStatus kubist_mpi_open(MPI_Comm comm, const char *location, const char *table_options,
                                           const KubistMpiOptions *options, KubistMpi *run) {
  KubistMpiOptions with;
  KubistStatus status = KUBIST_STATUS_OK;
  int rank, ranks, node_rank, node_ranks, own[2], most[2], leads, nodes, node_number = 0;
  int64_t shared[4];
  char writers[64], *named;
  memset(run, 0, sizeof *run);
  memset(&with, 0, sizeof with);
  run->comm = run->node = run->solvers = MPI_COMM_NULL;
  run->window = MPI_WIN_NULL;
  run->patience = 600.0;
  status = kubist_mpi_check_launcher(run);
  if (status != KUBIST_STATUS_OK) return status;
  if (options != NULL && options->size != sizeof with) {
    snprintf(run->message, sizeof run->message, "KubistMpiOptions: size must be %d", (int)sizeof with);
    status = KUBIST_STATUS_INVALID_INPUT;
  } else if (options != NULL) {
    with = *options;
    if (with.collective_seconds > 0.0) run->patience = with.collective_seconds;
    if (with.mode < KUBIST_MPI_AUTO || with.mode > KUBIST_MPI_DEDICATED) {
      snprintf(run->message, sizeof run->message, "KubistMpiOptions: there is no mode %d", with.mode);
      status = KUBIST_STATUS_INVALID_INPUT;
    }
  }
  /*
   * On the caller's communicator, before the first call that could hang without all ranks.
   */
  status = kubist_mpi_agree(run, comm, status);
  if (status != KUBIST_STATUS_OK) return status;
  MPI_Comm_dup(comm, &run->comm);
  shared[0] = with.mode;
  shared[1] = with.restart;
  shared[2] = with.restart_after;
  shared[3] = (int64_t)with.lane_bytes;
  MPI_Bcast(shared, 4, MPI_INT64_T, 0, run->comm);
  with.mode = (int)shared[0];
  with.restart = (int)shared[1];
  with.restart_after = shared[2];
  with.lane_bytes = (uint64_t)shared[3];
  MPI_Comm_rank(run->comm, &rank);
  MPI_Comm_size(run->comm, &ranks);
  MPI_Comm_split_type(run->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &run->node);
  MPI_Comm_rank(run->node, &node_rank);
  MPI_Comm_size(run->node, &node_ranks);
  own[0] = node_ranks;
  own[1] = -node_ranks;
  MPI_Allreduce(own, most, 2, MPI_INT, MPI_MAX, run->comm);
  run->mode = with.mode;
  if (run->mode == KUBIST_MPI_AUTO) run->mode = most[0] <= 4 ? KUBIST_MPI_PER_RANK : KUBIST_MPI_PER_NODE;
  leads = node_rank == (run->mode == KUBIST_MPI_DEDICATED ? node_ranks - 1 : 0);
  MPI_Allreduce(&leads, &nodes, 1, MPI_INT, MPI_SUM, run->comm);
  MPI_Exscan(&leads, &node_number, 1, MPI_INT, MPI_SUM, run->comm);
  if (rank == 0) node_number = 0;
  MPI_Comm_split(run->comm, run->mode == KUBIST_MPI_DEDICATED && leads ? MPI_UNDEFINED : 0, rank, &run->solvers);

  if (run->mode == KUBIST_MPI_DEDICATED && most[1] == -1) {
    snprintf(run->message, sizeof run->message,
             "a node has one rank: the dedicated mode needs at least two ranks on each node");
    status = KUBIST_STATUS_INVALID_INPUT;
  } else if (kubist_abi_version() != KUBIST_ABI_VERSION) {
    snprintf(run->message, sizeof run->message, "kubist_mpi.h is for another version of libkubist");
    status = KUBIST_STATUS_UNSUPPORTED;
  } else if (rank == 0) {
    status = table_options == NULL ? kubist_table_open(location, &run->table)
                                   : kubist_table_create(location, table_options, &run->table);
    if (status == KUBIST_STATUS_OK && !with.restart) {
      snprintf(writers, sizeof writers, "{\"count\": %d}", run->mode == KUBIST_MPI_PER_RANK ? ranks : nodes);
      status = kubist_declare_writers(run->table, writers);
    }
  }
  status = kubist_mpi_agree(run, run->comm, status);
  if (status == KUBIST_STATUS_OK)
    status = kubist_mpi_agree(run, run->comm, rank == 0 ? KUBIST_STATUS_OK : kubist_table_open(location, &run->table));
  if (status == KUBIST_STATUS_OK && run->mode != KUBIST_MPI_PER_RANK) {
    status = kubist_mpi_open_node(run, &with, node_number);
  } else if (status == KUBIST_STATUS_OK) {
    named = kubist_mpi_named(run, with.writer_options, rank);
    status = kubist_mpi_agree(run, run->comm, kubist_mpi_check_named(run, named));
    if (status == KUBIST_STATUS_OK)
      status = kubist_mpi_agree(run, run->comm, kubist_writer_open(run->table, named, &run->writer));
    free(named);
  }
  if (status == KUBIST_STATUS_OK && with.restart) {
    if (rank == 0) status = kubist_mpi_take_back(run, &with, run->mode == KUBIST_MPI_PER_RANK ? ranks : nodes);
    status = kubist_mpi_agree(run, run->comm, status);
  }
  if (status != KUBIST_STATUS_OK) kubist_mpi_release(run);
  return status;
}

/*
 * Ends the step on all computing ranks, collectively, within their common budget: the ranks sum
 * one histogram of priorities, and each keeps the rows below the same threshold. Options and
 * report are those of kubist_end_step. If a rank cannot end the step, it returns its error, the
 * others return KUBIST_STATUS_UNAVAILABLE, and the step stays open on all ranks: end it together
 * again, or abandon it. Call it also after a failed kubist_begin_step or kubist_put, because the
 * other ranks wait; without a step or with a missing column, the rank takes part as one that
 * cannot end it. After KUBIST_STATUS_BUSY the rank ends it with kubist_end_step. run->message has
 * the reason, which may differ between ranks.
 */
static inline KubistStatus kubist_mpi_end_step(KubistMpi *run, const char *options, KubistReport *report) {
  const size_t bytes = KUBIST_SHARE_WORDS * sizeof(uint64_t) + KUBIST_SHARE_LARGEST * sizeof(double);
  KubistStatus own, status;
  MPI_Request requests[2];
  uint64_t *words;
  double *largest;
  char *mine;
  run->message[0] = '\0';
  if (run->is_torn || run->solvers == MPI_COMM_NULL) {
    snprintf(run->message, sizeof run->message, "this run is closed, has lost a rank, or this rank only commits");
    return KUBIST_STATUS_UNAVAILABLE;
  }
  mine = (char *)malloc(2 * bytes);
  if (mine == NULL) MPI_Abort(run->solvers, 1);
  words = (uint64_t *)(mine + bytes);
  largest = (double *)(words + KUBIST_SHARE_WORDS);
  own = kubist_step_share(run->writer, (uint64_t *)mine, (double *)mine + KUBIST_SHARE_WORDS);
  if (own != KUBIST_STATUS_OK) snprintf(run->message, sizeof run->message, "%.1000s", kubist_message());
  MPI_Iallreduce(mine, words, (int)KUBIST_SHARE_WORDS, MPI_UINT64_T, MPI_SUM, run->solvers, &requests[0]);
  MPI_Iallreduce((double *)mine + KUBIST_SHARE_WORDS, largest, (int)KUBIST_SHARE_LARGEST, MPI_DOUBLE, MPI_MAX,
                 run->solvers, &requests[1]);
  status = kubist_mpi_await(run, requests, 2, 0.0);
  /* A missing rank could still write to this memory. */
  if (status != KUBIST_STATUS_OK) return status;
  if (own == KUBIST_STATUS_OK) {
    own = kubist_step_settle(run->writer, words, largest, options, report);
    if (own != KUBIST_STATUS_OK) snprintf(run->message, sizeof run->message, "%.1000s", kubist_message());
  }
  free(mine);
  return own;
}

/*
 * Waits for queued steps, for at most timeout_seconds on each rank and again on each leader, and
 * closes all, collectively. Steps that could not be written in time are dropped, and the status
 * reports it. A dedicated rank calls it immediately, and waits without a timeout until the ranks
 * of its node have closed.
 */
static inline KubistStatus kubist_mpi_close(KubistMpi *run, double timeout_seconds) {
  KubistStatus status, of_leader = KUBIST_STATUS_OK;
  if (run->comm == MPI_COMM_NULL) return KUBIST_STATUS_OK;
  run->message[0] = '\0';
  if (run->solvers == MPI_COMM_NULL) {
    status = kubist_leader_close(run->leader, 1e18);
    if (status != KUBIST_STATUS_CANCELLED) run->leader = NULL;
  } else {
    status = kubist_writer_close(run->writer, timeout_seconds);
    if (status != KUBIST_STATUS_BUSY && status != KUBIST_STATUS_CANCELLED) run->writer = NULL;
  }
  status = kubist_mpi_agree_within(run, run->comm, status, timeout_seconds);
  if (run->leader != NULL && run->solvers != MPI_COMM_NULL) {
    of_leader = kubist_leader_close(run->leader, status == KUBIST_STATUS_OK ? timeout_seconds : 0.0);
    if (of_leader != KUBIST_STATUS_BUSY && of_leader != KUBIST_STATUS_CANCELLED) run->leader = NULL;
  }
  /* Also after an error, because another rank may use these resources. */
  of_leader = kubist_mpi_agree_within(run, run->comm, of_leader, timeout_seconds);
  if (status == KUBIST_STATUS_OK) status = of_leader;
  kubist_mpi_release(run);
  return status;
}

#endif
