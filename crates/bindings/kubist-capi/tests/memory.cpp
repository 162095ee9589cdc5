// Calls every function of the library with valid and invalid arguments, under valgrind or the
// address and leak sanitizers. Returns 0 if each call returned the expected status.
//
//     memory TABLE

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kubist.hpp"

// As defined by Arrow's C data interface.
struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray *);
  void *private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream *, ArrowSchema *);
  int (*get_next)(ArrowArrayStream *, ArrowArray *);
  const char *(*get_last_error)(ArrowArrayStream *);
  void (*release)(ArrowArrayStream *);
  void *private_data;
};

namespace {

const char *const kTable = R"({"columns": {"x": "f64", "pid": "i64", "hot": "bool"},
                               "dimensions": {"x": [0, 1]}, "identity": ["pid"]})";
const std::size_t kRows = 200;

void must(bool truth, const char *what) {
  if (truth) return;
  std::fprintf(stderr, "%s: %s\n", what, kubist_message());
  std::exit(2);
}

struct Place {
  double x = 0.5;
};

// The member belongs to the base, and the structs are larger than it.
struct Particle : Place {
  double mass = 9;
};

void put(kubist::Writer &writer) {
  const std::vector<Particle> particles(kRows);
  std::vector<long long> pid(2 * kRows, 7);
  writer.put("x", particles, &Particle::x);
  writer.put("pid", pid.data(), kRows, 2 * sizeof pid[0]);
  std::vector<std::uint8_t> hot(kRows, 1);
  must(kubist_put(writer.get(), "hot", KUBIST_TYPE_BOOL, hot.data(), kRows, 0) == KUBIST_STATUS_OK, "put");
}

std::int64_t read(ArrowArrayStream &stream, bool release_early = false) {
  std::int64_t rows = 0;
  ArrowSchema schema{};
  must(stream.get_schema(&stream, &schema) == 0, "schema");
  schema.release(&schema);
  while (!release_early) {
    ArrowArray array{};
    must(stream.get_next(&stream, &array) == 0, "batch");
    if (array.release == nullptr) break;
    rows += array.length;
    array.release(&array);
  }
  stream.release(&stream);
  return rows;
}

// Writes the rows of a query as a batch.
void put_answer(kubist::Table &table, kubist::Writer &writer) {
  ArrowArrayStream stream{};
  table.query(R"({"limit": 200})", &stream);
  ArrowSchema schema{};
  ArrowArray array{};
  must(stream.get_schema(&stream, &schema) == 0 && stream.get_next(&stream, &array) == 0, "batch");
  writer.put_arrow(&schema, &array);
  must(array.release == nullptr, "it was taken over");
  schema.release(&schema);
  stream.release(&stream);
}

void refuse(kubist::Table &table, kubist::Writer &writer) {
  const KubistStatus invalid = KUBIST_STATUS_INVALID_INPUT;
  KubistTable *none = nullptr;
  KubistReport report{};
  std::int32_t found = 0;
  must(kubist_table_open(nullptr, &none) == invalid, "location");
  must(kubist_table_create("memory://t", "{\"columns\": 3}", &none) == invalid, "options");
  must(kubist_put(writer.get(), "x", KUBIST_TYPE_F64, nullptr, 3, 0) == invalid, "null");
  must(kubist_put(writer.get(), "nothing", KUBIST_TYPE_F64, &report, 1, 0) == invalid, "column");
  must(kubist_end_step(writer.get(), "{\"tocken\": 1}", nullptr) == invalid, "option");
  must(kubist_end_step(writer.get(), nullptr, &report) == invalid, "size");
  must(kubist_count(table.get(), "{\"where\": \"nothing > 1\"}", nullptr) == invalid, "condition");
  must(kubist_last_step(table.get(), nullptr, &found) == invalid, "place");
  must(std::strlen(kubist_message()) > 0, "message");
  must(std::strcmp(kubist_status_name(invalid), "invalid_input") == 0, "name");
  must(std::strcmp(kubist_status_name(-7), "unknown") == 0, "name");
}

int ask(void *asked) {
  ++*static_cast<int *>(asked);
  return 0;
}

void log(void *events, std::int32_t, const char *event) { *static_cast<std::string *>(events) += event; }

void run(const std::string &location) {
  std::string events;
  kubist_set_log(log, &events);
  kubist::Table table = kubist::Table::create(location, kTable);
  int asked = 0;
  KubistHooks hooks{sizeof hooks, &asked, ask, nullptr};
  table.set_hooks(hooks);
  for (const char *options : {R"({"name": "direct"})", R"({"name": "queued", "queue": 2})"}) {
    kubist::Writer writer = table.writer(options);
    writer.begin_step(1);
    put(writer);
    writer.end_step();
    writer.wait();
    writer.begin_step(2);
    put_answer(table, writer);
    writer.end_step(R"({"token": "two"})");
    writer.begin_step(3);
    put(writer);
    refuse(table, writer);
    writer.abandon_step();
    writer.close();
  }
  must(events.find("step 2 is durable") != std::string::npos, "log");
  const std::uint64_t rows = table.count();
  must(rows == 4 * kRows, "rows");
  {
    // Destroyed with an open step.
    kubist::Writer writer = table.writer(R"({"queue": 1})");
    writer.begin_step(1);
    put(writer);
  }
  {
    const std::uint64_t bytes = kubist_ring_bytes(1, 0);
    std::vector<std::uint64_t> memory(bytes / 8);
    KubistLeader *leader = nullptr;
    KubistWriter *rank = nullptr;
    kubist::check(kubist_leader_start(table.get(), R"({"name": "node"})", memory.data(), bytes, 1, &leader));
    kubist::check(kubist_writer_attach(table.get(), "", memory.data(), bytes, 0, &rank));
    kubist::Writer writer(rank);
    writer.begin_step(1);
    put(writer);
    writer.end_step();
    writer.close();
    kubist::check(kubist_leader_close(leader, kubist::forever));
  }
  must(table.count() == rows + kRows, "rows of the ring");
  ArrowArrayStream stream{};
  table.query(R"({"box": {"x": [0, 1]}})", &stream);
  must(read(stream) == static_cast<std::int64_t>(rows + kRows), "query");
  table.query("", &stream);
  read(stream, true);
  kubist::Refine refine = table.refine(R"({"start": 0.5})");
  std::int64_t refined = 0;
  while (refine.next(&stream)) refined += read(stream);
  must(refined == static_cast<std::int64_t>(rows + kRows), "refine");
  must(table.estimate(R"json({"aggregates": ["mean(x)"]})json").find("0.5") != std::string::npos, "estimate");
  table.alter(R"({"compression": "small"})");
  must(table.optimize(R"({"recompress": true})").size() > 2 && table.info().size() > 2, "optimize, info");
  must(table.retract_after(1) == 2 * kRows, "retract");
  kubist_set_log(nullptr, nullptr);
}

}  // namespace

int main(int argc, char **argv) try {
  must(argc == 2, "memory TABLE");
  run(argv[1]);
  kubist::Table::drop(argv[1]);
  return 0;
} catch (const kubist::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
