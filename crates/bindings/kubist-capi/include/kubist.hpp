// Kubist for C++17 and later, based on kubist.h: RAII handles, spans and exceptions.
//
//     kubist::Table table = kubist::Table::create("run.kubist", options);
//     kubist::Writer writer = table.writer(R"({"name": "rank-0", "queue": 2})");
//     writer.begin_step(1);
//     writer.put("x", x);                  // std::vector, std::span, std::array, ...
//     writer.put("y", y.data(), y.size());
//     writer.end_step();
//     writer.close();
//
// Destructors close handles without waiting and without exceptions. Call close() to write the
// queued steps first.

#ifndef KUBIST_HPP
#define KUBIST_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "kubist.h"

namespace kubist {

// Error kinds, by what the caller can do.
enum class Kind : std::int32_t {
  invalid_input = KUBIST_STATUS_INVALID_INPUT,
  corrupt = KUBIST_STATUS_CORRUPT,
  unavailable = KUBIST_STATUS_UNAVAILABLE,
  no_space = KUBIST_STATUS_NO_SPACE,
  permission = KUBIST_STATUS_PERMISSION,
  busy = KUBIST_STATUS_BUSY,
  expired = KUBIST_STATUS_EXPIRED,
  cancelled = KUBIST_STATUS_CANCELLED,
  unsupported = KUBIST_STATUS_UNSUPPORTED,
  not_found = KUBIST_STATUS_NOT_FOUND,
  exists = KUBIST_STATUS_EXISTS,
  internal = KUBIST_STATUS_INTERNAL,
  not_here = KUBIST_STATUS_NOT_HERE,
};

// The exception that calls of Kubist throw.
class Error : public std::runtime_error {
 public:
  Error(Kind kind, const char *message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

inline void check(KubistStatus status) {
  if (status != KUBIST_STATUS_OK) throw Error(static_cast<Kind>(status), kubist_message());
}

// Throws if the library and this header have different ABI versions.
inline void check_version() {
  if (kubist_abi_version() != KUBIST_ABI_VERSION)
    throw Error(Kind::unsupported, "this program was compiled for another version of libkubist");
}

template <typename T>
struct type_of;
template <> struct type_of<float> { static constexpr std::int32_t value = KUBIST_TYPE_F32; };
template <> struct type_of<double> { static constexpr std::int32_t value = KUBIST_TYPE_F64; };
template <> struct type_of<std::int32_t> { static constexpr std::int32_t value = KUBIST_TYPE_I32; };
template <> struct type_of<std::int64_t> { static constexpr std::int32_t value = KUBIST_TYPE_I64; };
// The one of long and long long that is not std::int64_t.
using OtherLong = std::conditional_t<std::is_same_v<std::int64_t, long>, long long, long>;
template <> struct type_of<OtherLong> {
  static constexpr std::int32_t value = sizeof(OtherLong) == 8 ? KUBIST_TYPE_I64 : KUBIST_TYPE_I32;
};
template <> struct type_of<std::uint8_t> { static constexpr std::int32_t value = KUBIST_TYPE_U8; };
template <> struct type_of<bool> { static constexpr std::int32_t value = KUBIST_TYPE_BOOL; };

constexpr double forever = std::numeric_limits<double>::infinity();

// Owns a JSON text from the library.
class Text {
 public:
  Text() = default;
  explicit Text(char *text) : text_(text, kubist_string_free) {}
  std::string str() const { return text_ ? text_.get() : ""; }

 private:
  std::unique_ptr<char, void (*)(char *)> text_{nullptr, kubist_string_free};
};

// Writes steps; created by Table::writer. One step is open at a time.
class Writer {
 public:
  explicit Writer(KubistWriter *writer) : writer_(writer) {}

  void begin_step(std::int64_t step) { check(kubist_begin_step(writer_.get(), step)); }

  // `count` values at a distance of `stride` bytes; 0 means contiguous.
  template <typename T>
  void put(const std::string &column, const T *values, std::size_t count, std::size_t stride = 0) {
    using Value = std::remove_cv_t<T>;
    check(kubist_put(writer_.get(), column.c_str(), type_of<Value>::value, values, count, stride));
  }

  // Any contiguous container.
  template <typename Values>
  auto put(const std::string &column, const Values &values)
      -> std::void_t<decltype(values.data()), decltype(values.size())> {
    put(column, values.data(), values.size());
  }

  // One member of each struct, or of its base: put("x", particles, &Particle::x).
  template <typename Values, typename Struct, typename T>
  void put(const std::string &column, const Values &values, T Struct::*member) {
    const T *first = values.size() == 0 ? nullptr : &(values.data()->*member);
    put(column, first, values.size(), sizeof(*values.data()));
  }

  // Takes ownership of the array.
  void put_arrow(ArrowSchema *schema, ArrowArray *array) {
    check(kubist_put_arrow(writer_.get(), schema, array));
  }

  KubistReport end_step(const std::string &options = "") {
    KubistReport report{};
    report.size = sizeof report;
    check(kubist_end_step(writer_.get(), options.c_str(), &report));
    return report;
  }

  void abandon_step() { check(kubist_abandon_step(writer_.get())); }

  void wait(double timeout_seconds = forever, std::int64_t step = INT64_MAX) {
    check(kubist_wait(writer_.get(), step, timeout_seconds));
  }

  // Waits for queued steps. After a timeout it can be called again.
  void close(double timeout_seconds = forever) {
    const KubistStatus status = kubist_writer_close(writer_.get(), timeout_seconds);
    if (status != KUBIST_STATUS_BUSY && status != KUBIST_STATUS_CANCELLED) (void)writer_.release();
    check(status);
  }

  KubistWriter *get() const noexcept { return writer_.get(); }

  // Transfers ownership, for example to kubist_mpi_close.
  KubistWriter *release() noexcept { return writer_.release(); }

 private:
  struct Abort {
    void operator()(KubistWriter *writer) const noexcept { (void)kubist_writer_abort(writer); }
  };
  std::unique_ptr<KubistWriter, Abort> writer_;
};

// Results from coarse to fine; created by Table::refine.
class Refine {
 public:
  explicit Refine(KubistRefine *refine) : refine_(refine) {}

  // The next result, which the caller releases; false after the last one.
  bool next(ArrowArrayStream *stream) {
    std::int32_t found = 0;
    check(kubist_refine_next(refine_.get(), stream, &found));
    return found != 0;
  }

 private:
  struct Close {
    void operator()(KubistRefine *refine) const noexcept { (void)kubist_refine_close(refine); }
  };
  std::unique_ptr<KubistRefine, Close> refine_;
};

// An open table. Threads may share it; each process opens its own.
class Table {
 public:
  explicit Table(KubistTable *table) : table_(table) {}

  // Opens an existing table if it has the same definition.
  static Table create(const std::string &location, const std::string &options) {
    check_version();
    KubistTable *table = nullptr;
    check(kubist_table_create(location.c_str(), options.c_str(), &table));
    return Table(table);
  }

  static Table open(const std::string &location) {
    check_version();
    KubistTable *table = nullptr;
    check(kubist_table_open(location.c_str(), &table));
    return Table(table);
  }

  static void drop(const std::string &location, const std::string &options = "") {
    check(kubist_table_drop(location.c_str(), options.c_str()));
  }

  Writer writer(const std::string &options = "") const {
    KubistWriter *writer = nullptr;
    check(kubist_writer_open(table_.get(), options.c_str(), &writer));
    return Writer(writer);
  }

  void set_hooks(const KubistHooks &hooks) { check(kubist_table_set_hooks(table_.get(), &hooks)); }

  void declare_writers(const std::string &writers) {
    check(kubist_declare_writers(table_.get(), writers.c_str()));
  }

  // Waits until no writer of the job is active except `own`.
  void await_writers(const std::string &own) { check(kubist_await_writers(table_.get(), own.c_str())); }

  // Returns the number of retracted rows.
  std::uint64_t retract_after(std::int64_t step) {
    std::uint64_t rows = 0;
    check(kubist_retract_after(table_.get(), step, &rows));
    return rows;
  }

  // The last complete step; false if there is none.
  bool last_step(std::int64_t &step) const {
    std::int32_t found = 0;
    check(kubist_last_step(table_.get(), &step, &found));
    return found != 0;
  }

  std::uint64_t count(const std::string &query = "") const {
    std::uint64_t rows = 0;
    check(kubist_count(table_.get(), query.c_str(), &rows));
    return rows;
  }

  // The caller releases the stream.
  void query(const std::string &query, ArrowArrayStream *stream) const {
    check(kubist_query(table_.get(), query.c_str(), stream));
  }

  std::string estimate(const std::string &request) const {
    char *answer = nullptr;
    check(kubist_estimate(table_.get(), request.c_str(), &answer));
    return Text(answer).str();
  }

  Refine refine(const std::string &request) const {
    KubistRefine *refine = nullptr;
    check(kubist_refine(table_.get(), request.c_str(), &refine));
    return Refine(refine);
  }

  void alter(const std::string &settings) { check(kubist_alter(table_.get(), settings.c_str())); }

  std::string optimize(const std::string &options = "") {
    char *report = nullptr;
    check(kubist_optimize(table_.get(), options.c_str(), &report));
    return Text(report).str();
  }

  std::string info() const {
    char *info = nullptr;
    check(kubist_table_info(table_.get(), &info));
    return Text(info).str();
  }

  KubistTable *get() const noexcept { return table_.get(); }

 private:
  struct Close {
    void operator()(KubistTable *table) const noexcept { (void)kubist_table_close(table); }
  };
  std::unique_ptr<KubistTable, Close> table_;
};

}  // namespace kubist

#endif
