/* `plugin load kubistplugin.so` adds the fix of this folder to LAMMPS.
 *
 * Licensed under the GNU General Public License, version 2 or later: see LICENSE.
 */

#include "fix_kubist.h"

#include "lammps.h"

using namespace LAMMPS_NS;

// LAMMPS' plugin interface, copied from lammpsplugin.h, which LAMMPS' Python package lacks
// although it can load plugins.
extern "C" {
typedef void *(*factory_of_commands)(void *);
typedef void *(*factory_of_styles)(void *, int, char **);
struct lammpsplugin_t {
  const char *version, *style, *name, *info, *author;
  union {
    factory_of_commands v1;
    factory_of_styles v2;
  } creator;
  void *handle;
};
typedef void (*register_plugin)(lammpsplugin_t *, void *);

void lammpsplugin_init(void *lmp, void *handle, void *registers);
}

static void *make_fix(void *lmp, int narg, char **arg)
{
  return new FixKubist((LAMMPS *) lmp, narg, arg);
}

void lammpsplugin_init(void *lmp, void *handle, void *registers)
{
  lammpsplugin_t plugin = {};
  // It must be built with the headers of the LAMMPS that loads it: see README.md.
  plugin.version = ((LAMMPS *) lmp)->version;
  plugin.style = "fix";
  plugin.name = "kubist";
  plugin.info = "writes atoms into a Kubist table";
  plugin.author = "The Kubist authors";
  plugin.creator.v2 = make_fix;
  plugin.handle = handle;
  ((register_plugin) registers)(&plugin, lmp);
}
