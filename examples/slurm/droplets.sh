#!/bin/bash
# A Slurm job whose simulation writes to fast scratch storage, and whose table is copied to permanent
# storage before the time limit:
#
#     sbatch --export=ALL,SCRATCH=/scratch/me,KEEP=/project/me droplets.sh ./droplets 1000 100000
#
# Slurm signals this script some time before the limit (--signal), and the script signals the solver.
# The solver ends its current step and closes its table, which waits for queued steps. `kubist copy`
# then copies all rows to $KEEP. Set the time of --signal to at least the time that both take.
#SBATCH --job-name=droplets
#SBATCH --ntasks=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@300
set -u

solver=$1 steps=$2 droplets=$3
table=$SCRATCH/droplets-$SLURM_JOB_ID.kubist

mpirun -n "$SLURM_NTASKS" "$solver" "$table" "$steps" "$droplets" &
running=$!
# Open MPI and MPICH forward USR1 to all ranks.
trap 'echo "the time is nearly up"; kill -USR1 "$running"' USR1
wait "$running"
status=$?
# A signal ends `wait`, but not the process.
while kill -0 "$running" 2>/dev/null; do
  wait "$running"
  status=$?
done

kubist copy "$table" "$KEEP/droplets-$SLURM_JOB_ID.kubist" || exit 1
exit "$status"
