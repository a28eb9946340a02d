// What the MPI transport costs and brings, between two ranks:
//
//   mpirun -n 2 trireme_bench_comm plain      MPI_Send and MPI_Recv, the yardstick
//   mpirun -n 2 trireme_bench_comm channel    the same through the Channel
//
// Prints, per message size, half the round trip (median) and the rate. Then 8 MiB sent while both
// ranks compute: whether it arrives meanwhile, how much the computing slows down, and how much
// processor time other threads than the computing one took; and the same for a rank that waits.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/world.h"
#include "trireme/core/text.h"

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

extern "C" trireme::comm::StartWorld trireme_mpi_start;  // libtrireme_mpi.so

namespace {

using trireme::Bytes;
using trireme::BytesPerSecond;
using trireme::Seconds;
using trireme::comm::Channel;
using trireme::comm::Stream;
using Buffer = std::vector<std::byte>;

/// One rank's way to move a whole buffer.
struct Transport {
  int rank = 0;
  std::function<void(Buffer&)> send;
  std::function<void(Buffer&)> receive;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double processor_time(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Sums of a block that fits into the nearest cache, `rounds` times; the time that it took.
double compute(int rounds) {
  static volatile double sink = 0;
  std::vector<double> block(2048, 1.0);
  const double begin = now();
  for (int r = 0; r < rounds; ++r) {
    double sum = 0;
    for (double& x : block) sum += x = x * 0.999 + 0.001;
    sink = sink + sum;
  }
  return now() - begin;
}

int rounds_for(double seconds) {
  compute(1000);
  constexpr int kProbe = 20000;
  return static_cast<int>(kProbe * seconds / compute(kProbe));
}

void ping_pong(const Transport& transport, std::size_t size, int repeats) {
  Buffer buffer(size, std::byte{1});
  std::vector<double> times;
  for (int i = 0; i < repeats + repeats / 10 + 1; ++i) {
    const double begin = now();
    transport.rank == 0 ? transport.send(buffer) : transport.receive(buffer);
    transport.rank == 0 ? transport.receive(buffer) : transport.send(buffer);
    if (i > repeats / 10) times.push_back((now() - begin) / 2);
  }
  if (transport.rank != 0) return;
  const Seconds half(median(times));
  std::printf(
      "  %-9s %9s  %s\n", to_text(Bytes(static_cast<std::int64_t>(size))).c_str(),
      to_text(half).c_str(),
      size == 0 ? "" : to_text(BytesPerSecond(static_cast<double>(size) / half.count())).c_str());
}

void ping_pongs(const Transport& transport) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{64} << 10, std::size_t{1} << 20,
                                 std::size_t{8} << 20, std::size_t{64} << 20})
    ping_pong(transport, size, size > (std::size_t{16} << 20) ? 20 : 300);
}

/// Rank 0 sends in the middle of its computing, rank 1 has asked for it and computes too.
void overlap(Channel& channel) {
  const int rounds = rounds_for(0.3);
  const std::vector<int> both = trireme::comm::everyone(channel);
  barrier(channel, both, "start");
  const double alone = compute(rounds);
  Buffer buffer(std::size_t{8} << 20, std::byte{1});
  for (const char* when : {"nothing under way", "8 MiB under way", "a receive without its send"}) {
    barrier(channel, both, "start");
    const std::string_view chosen = when;
    std::unique_ptr<trireme::comm::Transfer> transfer;
    if (channel.rank() == 1 && chosen != "nothing under way")
      transfer = channel.receive(buffer, 0, Stream::kOutputs);
    if (channel.rank() == 0 && chosen == "8 MiB under way")
      transfer = channel.send(buffer, 1, Stream::kOutputs);
    const double others = processor_time(RUSAGE_SELF) - processor_time(RUSAGE_THREAD);
    const double took = compute(rounds);
    const double other_time = processor_time(RUSAGE_SELF) - processor_time(RUSAGE_THREAD) - others;
    const bool arrived = transfer && transfer->done();
    barrier(channel, both, "end");
    if (channel.rank() == 0 && !transfer && chosen != "nothing under way")
      transfer = channel.send(buffer, 1, Stream::kOutputs);
    if (transfer) transfer->wait("the rest");
    std::printf("  rank %d, %s: computing took %s (%s before), other threads %s = %.1f %%%s\n",
                channel.rank(), when, to_text(Seconds(took)).c_str(),
                to_text(Seconds(alone)).c_str(), to_text(Seconds(other_time)).c_str(),
                100 * other_time / took, arrived ? ", moved meanwhile" : "");
  }
}

/// Rank 1 waits for a message that rank 0 sends after its computing.
void idle_wait(Channel& channel) {
  const int rounds = rounds_for(0.3);
  Buffer buffer(std::size_t{8} << 20, std::byte{1});
  barrier(channel, trireme::comm::everyone(channel), "start");
  if (channel.rank() == 0) {
    compute(rounds);
    channel.send(buffer, 1, Stream::kOutputs)->wait("send");
    return;
  }
  const double used = processor_time(RUSAGE_SELF);
  const double begin = now();
  channel.receive(buffer, 0, Stream::kOutputs)->wait("receive");
  const double took = now() - begin;
  std::printf("  rank 1 waited %s, which took %.1f %% of a processor\n",
              to_text(Seconds(took)).c_str(), 100 * (processor_time(RUSAGE_SELF) - used) / took);
}

void run_plain() {
  MPI_Init(nullptr, nullptr);
  Transport transport;
  MPI_Comm_rank(MPI_COMM_WORLD, &transport.rank);
  const int peer = 1 - transport.rank;
  transport.send = [peer](Buffer& buffer) {
    MPI_Send(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, peer, 0, MPI_COMM_WORLD);
  };
  transport.receive = [peer](Buffer& buffer) {
    MPI_Recv(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, peer, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  };
  ping_pongs(transport);
  MPI_Finalize();
}

void run_channel() {
  const std::unique_ptr<trireme::comm::World> world(
      trireme_mpi_start(trireme::comm::kWorldVersion, {}));
  Channel& channel = world->channel();
  const int peer = 1 - channel.rank();
  Transport transport;
  transport.rank = channel.rank();
  transport.send = [&](Buffer& buffer) {
    channel.send(buffer, peer, Stream::kOutputs)->wait("send");
  };
  transport.receive = [&](Buffer& buffer) {
    channel.receive(buffer, peer, Stream::kOutputs)->wait("receive");
  };
  ping_pongs(transport);
  overlap(channel);
  idle_wait(channel);
  world->close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode == "plain") {
    run_plain();
  } else if (mode == "channel") {
    run_channel();
  } else {
    std::fprintf(stderr, "usage: mpirun -n 2 %s plain|channel\n", argv[0]);
    return 2;
  }
  return 0;
}
