// What a launcher (mpirun, mpiexec, srun) tells each process that it starts, by its environment:
// known before any MPI is loaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace trireme::comm {

struct Launch {
  bool connected = false;  ///< MPI will find the other processes; false without a launcher
  int ranks = 1;           ///< processes that were started together, this one included
  int rank = 0;
  int rank_on_host = 0;

  bool operator==(const Launch&) const = default;
};

/// `value_of` returns a variable's value, null where it is not set. Knows the variables of Open
/// MPI, of MPICH's Hydra (which Intel MPI has, too), of MVAPICH2's mpirun_rsh, and of Slurm with
/// --mpi=pmix, --mpi=pmi2 and none, whose processes are not connected.
Launch read_launch(const std::function<const char*(const char* name)>& value_of);

/// How this process was started.
Launch own_launch();

}  // namespace trireme::comm
