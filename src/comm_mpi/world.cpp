// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm_mpi/world.h"

#include "all_ranks_watch.h"
#include "endpoint.h"
#include "mpi_calls.h"
#include "mpi_channel.h"

#include "trireme/core/error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace trireme::comm {
namespace {

/// Whether a world of this process was started and has not been closed.
std::atomic<bool> world_is_open{false};  // NOLINT: MPI is one per process

/// At exit, if MPI was started here: as any MPI program's end, it waits for the other ranks.
void finalize_mpi();

}  // namespace

struct MpiWorld::Impl {
  Impl(const ChannelOptions& options, Bytes piece)
      : world(duplicate_world()),
        ranks_on_this_host(count_ranks_on_this_host(world)),
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

std::unique_ptr<MpiWorld> MpiWorld::start(const ChannelOptions& options, Bytes piece) {
  ensure(piece.count() > 0 && piece.count() <= kLargestPiece.count(),
         "a piece of a message has an MPI count");
  if (world_is_open)
    throw CommError(
        "MPI serves one run of a process at a time, and an earlier one has not ended well: start "
        "the process again");
  const AllRanksWatch watch({start_patience(options.timeout), options.stop_requested}, "to start");
  if (begin_mpi()) std::atexit(finalize_mpi);
  require_serialized();
  world_is_open = true;
  return std::unique_ptr<MpiWorld>(new MpiWorld(std::make_unique<Impl>(options, piece)));
}

MpiWorld::MpiWorld(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MpiWorld::~MpiWorld() = default;

Channel& MpiWorld::channel() {
  return impl_->channel;
}

int MpiWorld::ranks_on_this_host() const {
  return impl_->ranks_on_this_host;
}

std::string MpiWorld::library() const {
  return mpi_library();
}

void MpiWorld::set_options(const ChannelOptions& options) {
  impl_->endpoint.set_options(options);
}

void MpiWorld::close() {
  impl_->channel.close();
  impl_->endpoint.stop();
  impl_->closed = true;
  const AllRanksWatch watch({impl_->end_patience, {}}, "to end, after all was done");
  free_communicators(impl_->world);
  world_is_open = false;
}

void MpiWorld::end_job(const std::exception& error, const std::function<void(const Cause&)>& say) {
  const Cause own = cause_of(impl_->world.rank, error);
  if (!impl_->closed) impl_->endpoint.end_job(own, say);
  say(own);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(own.ending));  // the run has ended: this rank ends alone
}

namespace {

void finalize_mpi() {
  // Not after a run that did not end: the launcher sees by that that this process failed, and ends
  // those that wait for it.
  if (world_is_open || !mpi_is_running()) return;
  MPI_Finalize();
}

}  // namespace
}  // namespace trireme::comm
