/* fix ID group kubist N TABLE [keyword value ...]: writes the atoms of a group into a Kubist
 * table every N time steps, on each rank. README.md lists the keywords.
 *
 * This file is part of Kubist's adapter for LAMMPS, which includes LAMMPS' headers and is
 * licensed under the GNU General Public License, version 2 or later: see LICENSE next to it.
 */

#ifndef LMP_FIX_KUBIST_H
#define LMP_FIX_KUBIST_H

#include "fix.h"

#include "kubist_mpi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace LAMMPS_NS {

class FixKubist : public Fix {
 public:
  FixKubist(class LAMMPS *, int, char **);
  ~FixKubist() override;

  int setmask() override;
  void init() override;
  // Writes the first time step of a run, and each N-th after it.
  void setup(int) override;
  void min_setup(int) override;
  void end_of_step() override;
  // Waits until queued steps are durable at the end of a run.
  void post_run() override;

 private:
  // A column and its source in LAMMPS: `component` of a per-atom array, or -1 for a vector.
  struct Column {
    std::string name, array;
    int component;
    int type;       // a KubistType
  };

  std::string table_, writer_, budget_, options_;
  int mode_;
  bool paths_;
  std::vector<Column> columns_;
  KubistMpi run_;
  bool open_;
  bigint last_;    // the last written time step
  std::vector<char> packed_;

  void parse(int narg, char **arg);
  void add_column(const std::string &name);
  void open();
  void write();
  void put(const Column &column, const std::vector<int> *chosen);
  void put_constant(const char *name, int type, const void *value, int count);
  void check(KubistStatus status, const char *doing);
};

}    // namespace LAMMPS_NS

#endif
