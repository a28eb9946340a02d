// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm_mpi/world.h"

#include "endpoint.h"
#include "mpi_calls.h"
#include "mpi_channel.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace trireme::comm {

bool launched_by_mpi() {
  static constexpr std::array<const char*, 4> kSetByLaunchers{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
                                                              "PMI_RANK", "PMI_SIZE"};
  return std::any_of(kSetByLaunchers.begin(), kSetByLaunchers.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

struct MpiWorld::Impl {
  Impl(const ChannelOptions& options, Bytes piece)
      : world(duplicate_world()),
        ranks_on_this_host(count_ranks_on_this_host()),
        endpoint(world, options, static_cast<std::size_t>(piece.count())),
        channel(endpoint) {}

  Communicators world;
  int ranks_on_this_host;
  Endpoint endpoint;
  MpiChannel channel;
  bool closed = false;
};

MpiWorld MpiWorld::start(const ChannelOptions& options, Bytes piece) {
  ensure(piece.count() > 0 && piece.count() <= kLargestPiece.count(),
         "a piece of a message has an MPI count");
  begin_mpi();
  return MpiWorld(std::make_unique<Impl>(options, piece));
}

MpiWorld::MpiWorld(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MpiWorld::MpiWorld(MpiWorld&&) noexcept = default;
MpiWorld& MpiWorld::operator=(MpiWorld&&) noexcept = default;
MpiWorld::~MpiWorld() = default;

Channel& MpiWorld::channel() {
  return impl_->channel;
}

int MpiWorld::ranks_on_this_host() const {
  return impl_->ranks_on_this_host;
}

void MpiWorld::set_options(const ChannelOptions& options) {
  impl_->endpoint.set_options(options);
}

void MpiWorld::close() {
  impl_->channel.close();
  impl_->endpoint.stop();
  impl_->closed = true;
  check(MPI_Finalize(), "MPI_Finalize");
}

void MpiWorld::kill_job(int exit_code) {
  if (!impl_->closed) impl_->endpoint.kill_job(exit_code);
  std::fflush(nullptr);
  std::_Exit(exit_code);  // MPI has ended: there is nobody to end but this rank
}

}  // namespace trireme::comm
