/* Kubist for C. Made by `make header` of crates/bindings/kubist-capi/src: do not change it by hand.
 *
 * Every function that can fail returns a KubistStatus; kubist_message() then says why, on the
 * same thread. Options and questions are JSON text, where null and "" stand for the defaults.
 * Structs that you hand over begin with their size. What is put is copied before the call
 * returns. Callbacks are called on the thread that called Kubist. Nothing here ends the process.
 * docs/simulations.md shows how they go together.
 */


#ifndef KUBIST_H
#define KUBIST_H

#include <stdint.h>
/* Of Arrow's C data and C stream interfaces (arrow.apache.org). */
struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;


// Counts the changes that old programs cannot live with. The library's file name has it too.
#define KUBIST_ABI_VERSION 1

// Numbers of a writer's share in a step that are added up over all writers.
#define KUBIST_SHARE_WORDS 7436

// Numbers of which the largest counts.
#define KUBIST_SHARE_LARGEST 8

// How much an event matters.
enum KubistLevel
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
  KUBIST_LEVEL_INFO = 0,
  KUBIST_LEVEL_WARNING = 1,
  KUBIST_LEVEL_ERROR = 2,
};
#ifndef __cplusplus
typedef int32_t KubistLevel;
#endif // __cplusplus

// How a call ended: what the caller can do about it. kubist_message says more.
enum KubistStatus
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
  KUBIST_STATUS_OK = 0,
  // Fix the input and call again; nothing was written.
  KUBIST_STATUS_INVALID_INPUT = 1,
  // Stored bytes are not what was written.
  KUBIST_STATUS_CORRUPT = 2,
  // The storage does not answer, or an operation of it failed: try again.
  KUBIST_STATUS_UNAVAILABLE = 3,
  // The disk or the quota is full: make room.
  KUBIST_STATUS_NO_SPACE = 4,
  // Who runs this may not do that.
  KUBIST_STATUS_PERMISSION = 5,
  // Someone else holds it, or it did not happen in time: wait, and call again.
  KUBIST_STATUS_BUSY = 6,
  // A handle that cannot be used any more: close it and open a new one.
  KUBIST_STATUS_EXPIRED = 7,
  // A callback stopped it.
  KUBIST_STATUS_CANCELLED = 8,
  // This version of Kubist cannot do it.
  KUBIST_STATUS_UNSUPPORTED = 9,
  // There is no table here.
  KUBIST_STATUS_NOT_FOUND = 10,
  // Something is already here.
  KUBIST_STATUS_EXISTS = 11,
  // A mistake in Kubist itself: report it.
  KUBIST_STATUS_INTERNAL = 12,
};
#ifndef __cplusplus
typedef int32_t KubistStatus;
#endif // __cplusplus

// The types of values.
enum KubistType
#ifdef __cplusplus
  : int32_t
#endif // __cplusplus
 {
  KUBIST_TYPE_F32 = 1,
  KUBIST_TYPE_F64 = 2,
  KUBIST_TYPE_I32 = 3,
  KUBIST_TYPE_I64 = 4,
  KUBIST_TYPE_U8 = 5,
  // A byte each; anything but 0 is true.
  KUBIST_TYPE_BOOL = 6,
};
#ifndef __cplusplus
typedef int32_t KubistType;
#endif // __cplusplus

// Commits what the ranks of a node put into their ring.
typedef struct KubistLeader KubistLeader;

// Answers from coarse to fine, each record once.
typedef struct KubistRefine KubistRefine;

// An open table. Threads may share it; each process opens its own.
typedef struct KubistTable KubistTable;

// A writer of steps. One step is begun at a time.
typedef struct KubistWriter KubistWriter;

// Is told an event: a level of KubistLevel, and a message that is valid for the time of the call.
typedef void (*KubistLog)(void *user, int32_t level, const char *message);

// What became of a step.
typedef struct KubistReport {
  // sizeof(KubistReport)
  uint64_t size;
  int64_t step;
  uint64_t rows;
  // Written, where the step is durable.
  uint64_t bytes;
  // That the commit took, where the step is durable.
  double seconds;
  // 1: it survives a crash. 0: it is queued, and kubist_wait waits for it.
  int32_t durable;
  // 1: its token was known: it had been written before, and was not again.
  int32_t repeated;
} KubistReport;

// Callbacks of long calls, each of which may be null.
typedef struct KubistHooks {
  // sizeof(KubistHooks)
  uint64_t size;
  // Handed to the callbacks.
  void *user;
  // Says with anything but 0 that the call is to stop: it returns KUBIST_STATUS_CANCELLED soon.
  int32_t (*cancelled)(void *user);
  // Is told how much is done, in rows, and how much there is to do, 0 where nobody knows.
  void (*progress)(void *user, uint64_t done, uint64_t total);
} KubistHooks;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the ABI of this library: compare it with KUBIST_ABI_VERSION of the header.
uint32_t kubist_abi_version(void);

// The version of Kubist, as "0.1.0". It is never freed.
const char *kubist_version(void);

// Tells events of all writers of this process to `callback`: steps that became durable, calls
// that wait, steps that were not written. It is called on threads that call Kubist, while they
// do. Null ends it.
void kubist_set_log(KubistLog callback,
                    void *user);

// How many records match: {"box": {"x": [0, 1]}, "where": "y > 2", "sample": 0.1, ...}.
KubistStatus kubist_count(const struct KubistTable *table,
                          const char *query,
                          uint64_t *rows);

// The records that match, as a stream of batches, which the caller releases. The question is
// the one of HTTP and Python: docs/simulations.md.
KubistStatus kubist_query(const struct KubistTable *table,
                          const char *query,
                          struct ArrowArrayStream *stream);

// Aggregates with intervals, from a sample as small as the goal allows: {"aggregates":
// ["mean(ux)"], "error": 0.01, "within": 2, "where": ...}. The answer is JSON, for
// kubist_string_free.
KubistStatus kubist_estimate(const struct KubistTable *table,
                             const char *request,
                             char **answer);

// Asks from coarse to fine: a query with "start", the share of the first answer, and "factor",
// by which each is finer than the one before.
KubistStatus kubist_refine(const struct KubistTable *table,
                           const char *request,
                           struct KubistRefine **refine);

// The next answer, a stream that the caller releases. `found` is 0 after the last one.
KubistStatus kubist_refine_next(const struct KubistRefine *refine,
                                struct ArrowArrayStream *stream,
                                int32_t *found);

// Ends a refinement. Null is fine.
KubistStatus kubist_refine_close(struct KubistRefine *refine);

// The bytes of memory for `ranks` ranks with room for `lane_bytes` bytes of each; UINT64_MAX if
// they are more than that.
uint64_t kubist_ring_bytes(uint32_t ranks,
                           uint64_t lane_bytes);

// Tells the leader of a ring that its rank `rank` comes no more, unless it has closed its writer: for a
// process that is about to lose the memory.
KubistStatus kubist_ring_leave(void *memory,
                               uint64_t bytes,
                               uint32_t rank);

// Makes a ring in `bytes` bytes of memory, which must stay until the leader is closed, and
// starts the threads that commit what comes: they are of low priority, unless "dedicated" is true,
// and call nothing but Kubist. Options are those of a writer; "queue" is how many steps may wait to be committed.
// The other ranks may look at the memory once this has returned.
KubistStatus kubist_leader_start(const struct KubistTable *table,
                                 const char *options,
                                 void *memory,
                                 uint64_t bytes,
                                 uint32_t ranks,
                                 struct KubistLeader **leader);

// Waits until all ranks have closed their writers and everything is durable; if something has stopped the
// leader, until all ranks have closed or ended. After
// KUBIST_STATUS_BUSY and KUBIST_STATUS_CANCELLED it goes on, and can be closed again; otherwise
// the handle is gone. A timeout below 0 is one of 0. Null is fine.
KubistStatus kubist_leader_close(struct KubistLeader *leader,
                                 double timeout_seconds);

// Ends a leader at once: ranks that still write are told, and what is queued is dropped. Null
// is fine.
KubistStatus kubist_leader_abort(struct KubistLeader *leader);

// Opens a writer that puts into the ring of a node, as its rank `rank`; the memory must stay until
// it is closed. Options are those of a writer, of which "timeout_seconds", "when_full" and those of
// a budget count.
// A step that ended is queued: kubist_wait waits for the leader, which commits a step once all
// ranks ended or abandoned it, and stops if one passes it by.
KubistStatus kubist_writer_attach(const struct KubistTable *table,
                                  const char *options,
                                  void *memory,
                                  uint64_t bytes,
                                  uint32_t rank,
                                  struct KubistWriter **writer);

// This writer's share in what all writers of the step that is begun decide: KUBIST_SHARE_WORDS
// numbers to be added up over all writers, and KUBIST_SHARE_LARGEST of which the largest count.
// After a failure it is the share of a writer that cannot end the step, which is to be added too:
// the others learn of it. The step stays begun, and takes no more columns.
KubistStatus kubist_step_share(const struct KubistWriter *writer,
                               uint64_t *words,
                               double *largest);

// Ends the step by the sum of all writers' shares: what the budget keeps of it is durable, or
// queued. Options and report are those of kubist_end_step, which also ends it after
// KUBIST_STATUS_BUSY. If another writer cannot end the step, this returns
// KUBIST_STATUS_UNAVAILABLE and it stays begun.
KubistStatus kubist_step_settle(const struct KubistWriter *writer,
                                const uint64_t *words,
                                const double *largest,
                                const char *options,
                                struct KubistReport *report);

// Why the last call that failed on this thread did: names the table, the column, the value. Empty
// if none has. It stays as it is until another call on this thread fails.
const char *kubist_message(void);

// A status in words, as "invalid_input". It is never freed.
const char *kubist_status_name(int32_t status);

// Makes a table at a location, a directory or cassandra://hosts/keyspace/table, or opens the
// one that is there, if it agrees. Options: {"columns": {"x": "f64", ...}, "dimensions":
// {"x": [0, 1], "y": null}, "identity": [...], ...}; docs/simulations.md lists them.
KubistStatus kubist_table_create(const char *location,
                                 const char *options,
                                 struct KubistTable **table);

// Opens the table at a location.
KubistStatus kubist_table_open(const char *location,
                               struct KubistTable **table);

// Closes a table. Writers that were opened through it go on. Null is fine.
KubistStatus kubist_table_close(struct KubistTable *table);

// Deletes the table at a location. Options: {"force": true} although a writer is at work.
KubistStatus kubist_table_drop(const char *location,
                               const char *options);

// Sets the callbacks of the long calls through this table and what is opened through it
// afterwards. They are called on threads that call Kubist, while they do. Null takes them away.
KubistStatus kubist_table_set_hooks(const struct KubistTable *table,
                                    const struct KubistHooks *hooks);

// Says which writers a step is to be of: questions with "steps" see it once all of them ended
// or abandoned it. {"count": 4}, or {"names": ["rank-0", ...]}; said once, or again the same.
// {"count": 2, "after": 5} says it anew of the steps after 5: a solver goes on from its checkpoint
// with another number of processes. Later steps are taken back before.
KubistStatus kubist_declare_writers(const struct KubistTable *table,
                                    const char *writers);

// Waits until none of the writers rank-0, rank-1, ... and node-0, ... is at work but the caller's own,
// {"kind": "rank", "count": 4}: before a solver that starts again with fewer of them takes steps
// back, those of the old attempt have ended. At most for "timeout_seconds", 60.
KubistStatus kubist_await_writers(const struct KubistTable *table,
                                  const char *own);

// Takes back every step after `step`, of all writers: a solver that starts again from a
// checkpoint goes on from there. Stop the writers of the old attempt first. `rows`, if it is
// not null, is told how many rows went.
KubistStatus kubist_retract_after(const struct KubistTable *table,
                                  int64_t step,
                                  uint64_t *rows);

// Changes settings of the table, {"compression": "small", "shared": true}: the compression of what is
// written from now on (kubist_optimize with "recompress" rewrites the rest), and whether several machines write to it.
KubistStatus kubist_alter(const struct KubistTable *table,
                          const char *settings);

// Improves the layout, so that questions read less. Options: {"debt_share": 0.1, "replication":
// "none", "recompress": true}. `report`, if it is not null, is given JSON, for kubist_string_free.
KubistStatus kubist_optimize(const struct KubistTable *table,
                             const char *options,
                             char **report);

// What the table is and holds, as JSON, for kubist_string_free.
KubistStatus kubist_table_info(const struct KubistTable *table,
                               char **info);

// The last step that every declared writer ended or abandoned. `found` is 0 if there is none.
KubistStatus kubist_last_step(const struct KubistTable *table,
                              int64_t *step,
                              int32_t *found);

// Frees text that a call handed out. Null is fine.
void kubist_string_free(char *text);

// Opens a writer. Options: {"name": "rank-3", "timeout_seconds": 60, "queue": 2, ...}; without
// a queue a step is durable when it ends. Another writer of the name is waited for.
KubistStatus kubist_writer_open(const struct KubistTable *table,
                                const char *options,
                                struct KubistWriter **writer);

// Begins a step. Steps go up: a lower one is refused here where steps are queued, otherwise when
// it ends.
KubistStatus kubist_begin_step(const struct KubistWriter *writer,
                               int64_t step);

// Copies a column of the step: `count` values of `type`, a KubistType, which begin `stride`
// bytes apart; 0 says that they lie side by side. When it returns the memory may be reused.
KubistStatus kubist_put(const struct KubistWriter *writer,
                        const char *column,
                        int32_t type,
                        const void *values,
                        uint64_t count,
                        uint64_t stride);

// Takes rows that have all columns, a struct array of Arrow's C data interface. The array is
// taken over, also where it is refused, unless a pointer is null; the schema stays the caller's.
KubistStatus kubist_put_arrow(const struct KubistWriter *writer,
                              struct ArrowSchema *schema,
                              struct ArrowArray *array);

// Ends the step: it is durable, or queued. While a column is missing, or the queue is full, it
// stays begun; after another failure nothing of it is in the table. Options: {"token": "..."}
// names the commit, so that a second attempt counts once. `report` may be null.
KubistStatus kubist_end_step(const struct KubistWriter *writer,
                             const char *options,
                             struct KubistReport *report);

// Forgets what was put in the step, and says in the table that this writer has nothing for it.
KubistStatus kubist_abandon_step(const struct KubistWriter *writer);

// Waits until all steps up to `step` that were ended are durable; INT64_MAX waits for all.
KubistStatus kubist_wait(const struct KubistWriter *writer,
                         int64_t step,
                         double timeout_seconds);

// Waits for what is queued, and closes the writer; a step that is begun is forgotten. After
// KUBIST_STATUS_BUSY and KUBIST_STATUS_CANCELLED it goes on, and can be closed again; otherwise
// the handle is gone. A timeout below 0 is one of 0. Null is fine.
KubistStatus kubist_writer_close(struct KubistWriter *writer,
                                 double timeout_seconds);

// Closes the writer at once: what is queued is dropped, as if the process had ended. Null is fine.
KubistStatus kubist_writer_abort(struct KubistWriter *writer);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* KUBIST_H */
