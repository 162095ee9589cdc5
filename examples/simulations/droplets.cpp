// Droplets that drift through a tube, as in droplets.c, with kubist.hpp and one process.
//
//     c++ -std=c++17 droplets.cpp -o droplets $(pkg-config --cflags --libs kubist)
//     ./droplets droplets.kubist 20 100000
//
// With MPI (mpicxx -DWITH_MPI), kubist_mpi.h opens and closes the table collectively. A fourth argument
// "dedicated" dedicates one rank per node to writing.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "kubist.hpp"
#ifdef WITH_MPI
#include "kubist_mpi.h"
#endif

namespace {

const char *const kTable = R"({
  "columns": {"x": {"type": "f64", "unit": "m"}, "y": "f64", "time": "f64",
              "diameter": "f32", "pid": "i64", "rank": "i32", "deposited": "bool"},
  "dimensions": {"x": [0, 1], "y": [0, 1], "time": [0, 1]},
  "identity": ["pid", "time"]})";

struct Droplet {
  double x, y;
  float diameter;
  std::int64_t pid;
  bool deposited;
};

std::vector<Droplet> begin(std::int64_t n, int rank) {
  std::vector<Droplet> droplets(static_cast<std::size_t>(n));
  std::int64_t pid = rank * n;
  for (Droplet &droplet : droplets) {
    droplet = {static_cast<double>(pid % 64) / 128, static_cast<double>(pid % 1024) / 1024,
               static_cast<float>(pid % 7), pid, false};
    pid++;
  }
  return droplets;
}

void move(std::vector<Droplet> &droplets) {
  for (Droplet &droplet : droplets) {
    if (droplet.deposited) continue;
    droplet.x += 0.015625;
    droplet.deposited = droplet.x > 0.9375;
  }
}

void run(kubist::Writer &writer, std::int64_t steps, std::int64_t n, int rank) {
  std::vector<Droplet> droplets = begin(n, rank);
  for (std::int64_t step = 1; step <= steps; step++) {
    move(droplets);
    writer.begin_step(step);
    writer.put("x", droplets, &Droplet::x);
    writer.put("y", droplets, &Droplet::y);
    writer.put("diameter", droplets, &Droplet::diameter);
    writer.put("pid", droplets, &Droplet::pid);
    writer.put("deposited", droplets, &Droplet::deposited);
    // Temporaries are fine, because `put` copies.
    writer.put("time", std::vector<double>(droplets.size(), static_cast<double>(step) / 1024));
    writer.put("rank", std::vector<std::int32_t>(droplets.size(), rank));
    writer.end_step();
  }
}

}  // namespace

int main(int argc, char **argv) try {
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
#endif
  const std::string location = argc > 1 ? argv[1] : "droplets.kubist";
  const std::int64_t steps = argc > 2 ? std::stoll(argv[2]) : 20, n = argc > 3 ? std::stoll(argv[3]) : 100000;
#ifdef WITH_MPI
  KubistMpi all;
  KubistMpiOptions options{};
  options.size = sizeof options;
  if (argc > 4 && std::string(argv[4]) == "dedicated") options.mode = KUBIST_MPI_DEDICATED;
  const KubistStatus opened = kubist_mpi_open(MPI_COMM_WORLD, location.c_str(), kTable, &options, &all);
  if (opened != KUBIST_STATUS_OK) throw kubist::Error(static_cast<kubist::Kind>(opened), all.message);
  if (all.solvers != MPI_COMM_NULL) {
    int rank;
    MPI_Comm_rank(all.solvers, &rank);
    kubist::Writer writer(all.writer);
    run(writer, steps, n, rank);
    // The collective close waits for it, and frees it.
    writer.release();
  }
  const KubistStatus closed = kubist_mpi_close(&all, 300.0);
  if (closed != KUBIST_STATUS_OK) throw kubist::Error(static_cast<kubist::Kind>(closed), all.message);
  MPI_Finalize();
#else
  kubist::Table table = kubist::Table::create(location, kTable);
  kubist::Writer writer = table.writer(R"({"name": "rank-0", "queue": 2})");
  run(writer, steps, n, 0);
  writer.close();
  std::cout << table.count() << " records, " << table.count(R"({"sample": 0.1})")
            << " of them in a sample of 10 %\n";
#endif
  return 0;
} catch (const kubist::Error &error) {
  std::cerr << "kubist: " << error.what() << "\n";
#ifdef WITH_MPI
  MPI_Abort(MPI_COMM_WORLD, 1);
#endif
  return 1;
}
