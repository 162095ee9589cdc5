// Linked into a program, it traps floating-point exceptions as many solvers do, and checks at the
// end that they would still trap.
#define _GNU_SOURCE
#include <fenv.h>
#include <stdlib.h>

enum { KIND = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW };

__attribute__((constructor)) static void begin(void) {
  if (feenableexcept(KIND) < 0) exit(3);
}

__attribute__((destructor)) static void end(void) {
  if (fegetexcept() != KIND || fetestexcept(KIND) != 0) _Exit(4);
}
