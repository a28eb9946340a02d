// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm_mpi/world.h"

#include "all_ranks_watch.h"
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
        channel(endpoint),
        end_patience(start_patience(options.timeout)) {}

  Communicators world;
  int ranks_on_this_host;
  Endpoint endpoint;
  MpiChannel channel;
  Seconds end_patience{60};
  bool closed = false;
};

MpiWorld MpiWorld::start(const ChannelOptions& options, Bytes piece) {
  ensure(piece.count() > 0 && piece.count() <= kLargestPiece.count(),
         "a piece of a message has an MPI count");
  const AllRanksWatch watch({start_patience(options.timeout), options.stop_requested}, "to start");
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
  const AllRanksWatch watch({impl_->end_patience, {}}, "to end, after all was done");
  check(MPI_Finalize(), "MPI_Finalize");
}

void MpiWorld::end_job(const std::exception& error, const std::function<void(const Cause&)>& say) {
  const Cause own = cause_of(impl_->world.rank, error);
  if (!impl_->closed) impl_->endpoint.end_job(own, say);
  say(own);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(own.ending));  // MPI has ended: this rank ends alone
}

}  // namespace trireme::comm
