/* Writes the atoms of a group into a Kubist table: see fix_kubist.h.
 *
 * Licensed under the GNU General Public License, version 2 or later: see LICENSE.
 */

#include "fix_kubist.h"

#include "atom.h"
#include "domain.h"
#include "error.h"
#include "library.h"
#include "update.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace LAMMPS_NS;
using namespace FixConst;

namespace {

// Names as in dumps, and the LAMMPS arrays that hold the values.
struct Known {
  const char *name, *array;
  int component;
};
const Known KNOWN[] = {{"id", "id", -1}, {"type", "type", -1}, {"mol", "molecule", -1}, {"q", "q", -1},
                       {"x", "x", 0},    {"y", "x", 1},        {"z", "x", 2},           {"vx", "v", 0},
                       {"vy", "v", 1},   {"vz", "v", 2},       {"fx", "f", 0},          {"fy", "f", 1},
                       {"fz", "f", 2},   {"mux", "mu", 0},     {"muy", "mu", 1},        {"muz", "mu", 2},
                       {"omegax", "omega", 0}, {"omegay", "omega", 1}, {"omegaz", "omega", 2}};

const char *type_name(int type)
{
  return type == KUBIST_TYPE_F64 ? "f64" : type == KUBIST_TYPE_I64 ? "i64" : "i32";
}

std::string quoted(const std::string &text)
{
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string range(double low, double high)
{
  char text[80];
  snprintf(text, sizeof text, "[%.17g, %.17g]", low, high > low ? high : low + 1);
  return text;
}

}    // namespace

FixKubist::FixKubist(LAMMPS *lmp, int narg, char **arg) :
    Fix(lmp, narg, arg), writer_("\"queue\": 2"), mode_(KUBIST_MPI_AUTO), paths_(false), run_(), open_(false),
    last_(-1)
{
  parse(narg, arg);
  time_depend = 1;
}

FixKubist::~FixKubist()
{
  // Collective, because every rank has all fixes in the same order.
  if (open_) kubist_mpi_close(&run_, 3600.0);
}

void FixKubist::parse(int narg, char **arg)
{
  if (narg < 5) error->all(FLERR, "fix kubist: ID group kubist N TABLE [keyword value ...]");
  nevery = atoi(arg[3]);
  if (nevery <= 0) error->all(FLERR, std::string("fix kubist: N must be above 0, not ") + arg[3]);
  table_ = arg[4];
  std::vector<std::string> names = {"type", "vx", "vy", "vz"};
  for (int at = 5; at < narg;) {
    const std::string keyword = arg[at];
    if (keyword == "columns") {
      names.clear();
      for (at++; at < narg && strcmp(arg[at], "end") != 0; at++) names.push_back(arg[at]);
      if (at == narg) error->all(FLERR, "fix kubist: columns NAME ... end");
      at++;
      continue;
    }
    if (at + 1 == narg) error->all(FLERR, "fix kubist: a value is missing after " + keyword);
    const std::string value = arg[at + 1];
    if (keyword == "mode" && value == "auto") mode_ = KUBIST_MPI_AUTO;
    else if (keyword == "mode" && value == "rank") mode_ = KUBIST_MPI_PER_RANK;
    else if (keyword == "mode" && value == "node") mode_ = KUBIST_MPI_PER_NODE;
    else if (keyword == "sample" && value == "records") paths_ = false;
    else if (keyword == "sample" && value == "paths") paths_ = true;
    else if (keyword == "writer") writer_ = value;
    else if (keyword == "budget") budget_ = value;
    else if (keyword == "options") options_ = value;
    else error->all(FLERR, "fix kubist: there is no " + keyword + " " + value);
    at += 2;
  }
  if (!atom->tag_enable) error->all(FLERR, "fix kubist: atoms must have ids");
  for (const char *name : {"id", "x", "y", "z"}) add_column(name);
  for (const std::string &name : names) add_column(name);
}

void FixKubist::add_column(const std::string &name)
{
  for (const Column &there : columns_)
    if (there.name == name) return;
  Column column = {name, name, -1, 0};
  for (const Known &known : KNOWN)
    if (name == known.name) column = {name, known.array, known.component, 0};
  switch (atom->extract_datatype(column.array.c_str())) {
    case LAMMPS_INT: column.type = KUBIST_TYPE_I32; break;
    case LAMMPS_INT64: column.type = KUBIST_TYPE_I64; break;
    case LAMMPS_DOUBLE: column.type = KUBIST_TYPE_F64; break;
    case LAMMPS_DOUBLE_2D:
      if (column.component >= 0) column.type = KUBIST_TYPE_F64;
      break;
    default: break;
  }
  if (column.type == 0 || atom->extract(column.array.c_str()) == nullptr)
    error->all(FLERR, "fix kubist: these atoms have no " + name + " of a number each");
  columns_.push_back(column);
}

int FixKubist::setmask()
{
  return END_OF_STEP;
}

void FixKubist::init()
{
  if (!open_) open();
}

void FixKubist::open()
{
  std::string columns, dimensions;
  for (const Column &column : columns_)
    columns += quoted(column.name) + ": \"" + type_name(column.type) + "\", ";
  const char *axes[] = {"x", "y", "z"};
  for (int axis = 0; axis < 3; axis++)
    dimensions += quoted(axes[axis]) + ": " + range(domain->boxlo[axis], domain->boxhi[axis]) + ", ";
  dimensions += "\"step\": " + range((double) update->firststep, (double) update->laststep);
  const std::string table = "{\"columns\": {" + columns + "\"step\": \"i64\", \"time\": \"f64\"}, \"dimensions\": {" +
      dimensions + "}, \"identity\": [\"id\"" + (paths_ ? "" : ", \"step\"") + "]" + (options_.empty() ? "" : ", " + options_) + "}";
  const std::string writer = "{" + writer_ + (budget_.empty() ? "" : ", " + budget_) + "}";
  KubistMpiOptions with;
  memset(&with, 0, sizeof with);
  with.size = sizeof with;
  with.mode = mode_;
  with.writer_options = writer.c_str();
  // A run from a restart file writes its first time step again.
  with.restart = 1;
  with.restart_after = (int64_t) update->ntimestep - 1;
  // An existing table keeps its definition, because a later run has another last step.
  KubistStatus status = kubist_mpi_open(world, table_.c_str(), nullptr, &with, &run_);
  if (status == KUBIST_STATUS_NOT_FOUND)
    status = kubist_mpi_open(world, table_.c_str(), table.c_str(), &with, &run_);
  if (status != KUBIST_STATUS_OK) error->all(FLERR, std::string("fix kubist: ") + run_.message);
  open_ = true;
}

void FixKubist::setup(int)
{
  if (update->ntimestep % nevery == 0) write();
}

void FixKubist::min_setup(int flag)
{
  setup(flag);
}

void FixKubist::end_of_step()
{
  write();
}

void FixKubist::post_run()
{
  check(kubist_wait(run_.writer, INT64_MAX, 3600.0), "waiting for what is queued");
}

void FixKubist::write()
{
  // The last step of a run is the first of the next one.
  if (update->ntimestep <= last_) return;
  last_ = update->ntimestep;
  std::vector<int> chosen;
  const bool all = igroup == 0;
  for (int i = 0; !all && i < atom->nlocal; i++)
    if (atom->mask[i] & groupbit) chosen.push_back(i);
  const int count = all ? atom->nlocal : (int) chosen.size();

  check(kubist_begin_step(run_.writer, (int64_t) update->ntimestep), "beginning a step");
  for (const Column &column : columns_) put(column, all ? nullptr : &chosen);
  const int64_t step = (int64_t) update->ntimestep;
  const double time = update->atime + (double) (update->ntimestep - update->atimestep) * update->dt;
  put_constant("step", KUBIST_TYPE_I64, &step, count);
  put_constant("time", KUBIST_TYPE_F64, &time, count);
  if (budget_.empty()) {
    check(kubist_end_step(run_.writer, nullptr, nullptr), "ending a step");
    return;
  }
  // All ranks decide together which rows are kept.
  if (kubist_mpi_end_step(&run_, nullptr, nullptr) != KUBIST_STATUS_OK)
    error->one(FLERR, std::string("fix kubist: ending a step: ") + run_.message);
}

void FixKubist::put(const Column &column, const std::vector<int> *chosen)
{
  // LAMMPS reallocates arrays when atoms migrate, so pointers are read each time.
  const void *array = atom->extract(column.array.c_str());
  const size_t size = column.type == KUBIST_TYPE_I32 ? 4 : 8;
  size_t stride = size, count = (size_t) atom->nlocal;
  const char *first = (const char *) array;
  if (column.component >= 0) {
    // Contiguous rows of three; null without atoms.
    double *const *rows = (double *const *) array;
    first = count == 0 ? nullptr : (const char *) (rows[0] + column.component);
    stride = 3 * sizeof(double);
    if (column.array == "mu") stride = 4 * sizeof(double);
  }
  if (chosen != nullptr) {
    count = chosen->size();
    packed_.resize(count * size);
    for (size_t i = 0; i < count; i++) memcpy(&packed_[i * size], first + (*chosen)[i] * stride, size);
    first = packed_.data();
    stride = size;
  }
  check(kubist_put(run_.writer, column.name.c_str(), column.type, count == 0 ? nullptr : first, count, stride),
        column.name.c_str());
}

void FixKubist::put_constant(const char *name, int type, const void *value, int count)
{
  packed_.resize((size_t) count * 8);
  for (int i = 0; i < count; i++) memcpy(&packed_[(size_t) i * 8], value, 8);
  check(kubist_put(run_.writer, name, type, count == 0 ? nullptr : packed_.data(), (uint64_t) count, 0), name);
}

void FixKubist::check(KubistStatus status, const char *doing)
{
  if (status != KUBIST_STATUS_OK)
    error->one(FLERR, std::string("fix kubist: ") + doing + ": " + kubist_message());
}
