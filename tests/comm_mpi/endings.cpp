// How a job ends when a rank fails: each mode is one way, run as a whole job of three ranks by
// expect_ending.cmake. Ranks print what they were told and end the job with the cause's exit code.
//   mpirun -n 3 comm_mpi_endings MODE
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cause.h"
#include "trireme/comm_mpi/world.h"
#include "trireme/core/error.h"

#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using trireme::Seconds;
using trireme::comm::Channel;
using trireme::comm::Stream;
using Buffer = std::vector<std::byte>;

constexpr int kLeft = 3;

void receive_one(Channel& channel, int from, std::string_view what) {
  Buffer buffer(1 << 16);
  channel.receive(buffer, from, Stream::kOutputs)->wait(what);
}

/// Rank 2, which may stop right afterwards, returns when the others have: what it owes them in a
/// barrier is then delivered.
void let_rank_two_know(Channel& channel) {
  Buffer buffer(1);
  for (const int other : {0, 1}) {
    if (channel.rank() == other) channel.send(buffer, 2, Stream::kOutputs)->wait("start");
    if (channel.rank() == 2) channel.receive(buffer, other, Stream::kOutputs)->wait("start");
  }
}

/// Prints that the job has started; all ranks return together.
void start(Channel& channel) {
  if (channel.rank() == 0) std::fprintf(stderr, "%d ranks have started\n", channel.size());
  barrier(channel, everyone(channel), "start");
  let_rank_two_know(channel);
}

/// Ranks 0 and 1 wait while rank 2 runs `ending`.
void wait_for_rank_two(Channel& channel, const std::function<void()>& ending) {
  start(channel);
  if (channel.rank() == 2) ending();
  receive_one(channel, channel.rank() + 1, "3:receive_gradient 4");
}

void be_killed(Channel& channel) {
  wait_for_rank_two(channel, [] { raise(SIGKILL); });
}

/// When the job is ended, the stopped process is resumed for a moment.
void stop_for_good() {
  raise(SIGSTOP);
  while (true) std::this_thread::yield();
}

void be_stopped(Channel& channel) {
  wait_for_rank_two(channel, stop_for_good);
}

/// Rank 1 has passed MPI a send that rank 2 asked for and does not receive.
void be_stopped_in_a_transfer(Channel& channel) {
  Buffer buffer(std::size_t{64} << 20);
  std::unique_ptr<trireme::comm::Transfer> transfer;
  if (channel.rank() == 2) transfer = channel.receive(buffer, 1, Stream::kGradients);
  start(channel);  // afterwards rank 1 knows of the receive
  if (channel.rank() == 2) stop_for_good();
  if (channel.rank() == 1) transfer = channel.send(buffer, 2, Stream::kGradients);
  try {
    receive_one(channel, channel.rank() + 1, "3:receive_gradient 4");
  } catch (const trireme::CommError&) {
    transfer.reset();
    Buffer().swap(buffer);
    std::fprintf(stderr, "rank %d has its memory back\n", channel.rank());
    throw;
  }
}

void give_up(Channel& channel) {
  wait_for_rank_two(channel, [] { throw trireme::DeviceError("out of memory: asked for 5 GiB"); });
}

/// Others wait for rank 2 alone, or for no rank: which rank hears what first is chance.
void fail_with(Channel& channel, const std::function<void()>& fail) {
  start(channel);
  if (channel.rank() == 2) {
    // Withdrawn during unwinding, before the others hear why.
    Buffer buffer(1 << 16);
    const auto transfer = channel.send(buffer, 1, Stream::kGradients);
    fail();
  }
  receive_one(channel, channel.rank() + 1, "3:receive_gradient 4");
}

void not_fit(Channel& channel) {
  fail_with(channel, [] {
    throw trireme::comm::EndingError(trireme::comm::Ending::kDoesNotFit, "needs 5 GiB");
  });
}

void be_interrupted(Channel& channel) {
  fail_with(channel, [] { throw trireme::Interrupted("stopped on request"); });
}

/// Rank 2 reports its error after the waits of others have timed out.
void say_it_late(Channel& channel) {
  start(channel);
  try {
    receive_one(channel, (channel.rank() + 1) % 3, "3:receive_gradient 4");
  } catch (const trireme::CommError&) {
    if (channel.rank() == 2) throw trireme::InputError("job.yaml:3: no such key");
    throw;
  }
}

void wait_in_a_circle(Channel& channel) {
  start(channel);
  receive_one(channel, (channel.rank() + 1) % channel.size(), "1:receive_input 2");
}

void compute_for_ever(Channel& channel) {
  wait_for_rank_two(channel, [] {
    while (true) std::this_thread::yield();
  });
}

void close_without_rank_two(Channel& channel) {
  start(channel);
  while (channel.rank() == 2) std::this_thread::yield();
  channel.close();
}

/// Destroys the world without close() or abandon().
void leave(Channel& channel) {
  wait_for_rank_two(channel, [] { throw std::string("no word to the others"); });
}

const std::map<std::string_view, void (*)(Channel&)>& modes() {
  static const std::map<std::string_view, void (*)(Channel&)> kModes{
      {"killed", be_killed},
      {"stopped", be_stopped},
      {"stopped_in_a_transfer", be_stopped_in_a_transfer},
      {"gives_up", give_up},
      {"does_not_fit", not_fit},
      {"is_interrupted", be_interrupted},
      {"says_it_late", say_it_late},
      {"circle", wait_in_a_circle},
      {"computes", compute_for_ever},
      {"close", close_without_rank_two},
      {"leaves", leave}};
  return kModes;
}

int run(std::string_view mode) {
  auto world = trireme::comm::MpiWorld::start({Seconds(1), {}});
  try {
    modes().at(mode)(world->channel());
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "rank %d says: %s\n", world->channel().rank(), error.what());
    world->end_job(error, [](const trireme::comm::Cause& cause) {
      std::fprintf(stderr, "the cause: rank %d: %s\n", cause.rank, cause.reason.c_str());
    });
  } catch (const std::string&) {
    return kLeft;
  }
  world->close();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a stopped rank must not outlive a mpirun that was killed
  if (argc != 2 || !modes().contains(argv[1])) return 2;
  return run(argv[1]);
}
