// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/mpi_library.h"

#include "trireme/comm/launch.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/library.h"

namespace trireme::ranks {
namespace {

constexpr const char* kLibrary = "libtrireme_mpi.so";
constexpr const char* kEntryPoint = "trireme_mpi_start";

/// Throws InputError if the world has fewer ranks than the launcher has started processes: an MPI
/// that does not know its launcher takes each process for a whole job.
void require_all(comm::World& world, const comm::Launch& launch);

}  // namespace

std::filesystem::path mpi_library() {
  return io::own_file().parent_path() / kLibrary;
}

std::unique_ptr<comm::World> start_world(const comm::ChannelOptions& options) {
  return start_world(mpi_library(), options);
}

std::unique_ptr<comm::World> start_world(const std::filesystem::path& library,
                                         const comm::ChannelOptions& options) {
  const io::LibraryHelp help{
      .if_missing =
          "this build has no MPI, through which ranks that are processes talk: install "
          "one (Debian: openmpi-bin, libopenmpi-dev) and configure and build again; one "
          "process with pipeline.transport: auto needs none",
      .if_not_loadable =
          "install the MPI that it was built with (libmpi.so.40 is Open MPI, Debian's openmpi-bin; "
          "libmpi.so.12 and libmpich.so.12 are MPICH, Debian's mpich), or name its folder in "
          "LD_LIBRARY_PATH; one process with pipeline.transport: auto needs none"};
  auto* const start =
      reinterpret_cast<comm::StartWorld*>(io::load_entry_point(library, kEntryPoint, help));
  const comm::Launch launch = comm::own_launch();  // MPI may change the environment
  std::unique_ptr<comm::World> world(start(comm::kWorldVersion, options));
  if (!world) throw InputError(concat(library.string(), " is of another build: build both again"));
  require_all(*world, launch);
  return world;
}

namespace {

void require_all(comm::World& world, const comm::Launch& launch) {
  const int found = world.channel().size();
  if (found >= launch.ranks) return;
  throw InputError(
      concat("the launcher started ", launch.ranks, " processes, but ", kLibrary, " finds ", found,
             " of them: it was built with ", world.library(),
             ", and the launcher is of another MPI: use that one's mpirun (srun --mpi=pmix), or "
             "configure and build again with -DMPI_CXX_COMPILER= of the launcher's"));
}

}  // namespace
}  // namespace trireme::ranks
