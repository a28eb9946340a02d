// SPDX-License-Identifier: Apache-2.0
#include "tier/own_stream.h"

#include "tier/cuda_calls.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace trireme::tier {
namespace {

using c10::cuda::CUDAStream;
using Clock = std::chrono::steady_clock;

/// Streams that are tried at most. A GPU gives its queues, 32 at most, to new streams in turns.
constexpr int kTries = 40;
constexpr std::chrono::milliseconds kPatience{100};
/// How long a stream is held at most: tools that make launches wait for their end hold this thread,
/// too (CUDA_LAUNCH_BLOCKING, compute-sanitizer).
constexpr std::chrono::milliseconds kHold{500};

struct InUse {
  CUDAStream stream;
  StreamUse use;
};

std::mutex streams_mutex;
std::map<c10::DeviceIndex, std::vector<InUse>>& streams_in_use() {
  static auto* const streams = new std::map<c10::DeviceIndex, std::vector<InUse>>;
  return *streams;
}

CUDAStream new_stream(c10::DeviceIndex device) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
        "cudaStreamCreateWithPriority");
  return c10::cuda::getStreamFromExternal(stream, device);
}

void destroy(const CUDAStream& stream) {
  cudaStreamDestroy(stream.stream());  // pending work still ends
}

/// Whether each has happened, within the patience.
std::vector<bool> have_happened(const std::vector<c10::cuda::CUDAEvent>& events) {
  std::vector<bool> happened(events.size(), false);
  const auto end = Clock::now() + kPatience;
  while (true) {
    for (std::size_t i = 0; i < events.size(); ++i) happened[i] = happened[i] || events[i].query();
    const bool all = std::find(happened.begin(), happened.end(), false) == happened.end();
    if (all || Clock::now() > end) return happened;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

std::vector<c10::cuda::CUDAEvent> recorded(const std::vector<CUDAStream>& streams) {
  std::vector<c10::cuda::CUDAEvent> events(streams.size());
  for (std::size_t i = 0; i < streams.size(); ++i) events[i].record(streams[i]);
  return events;
}

/// Keeps what is queued on a stream from running.
class Blocked {
 public:
  explicit Blocked(const CUDAStream& stream) {
    auto waits = std::make_unique<std::shared_future<void>>(gate_.get_future());
    const auto wait = [](void* data) {
      std::unique_ptr<std::shared_future<void>>(static_cast<std::shared_future<void>*>(data))
          ->wait_for(kHold);
    };
    check(cudaLaunchHostFunc(stream.stream(), wait, waits.get()), "cudaLaunchHostFunc");
    static_cast<void>(waits.release());  // owned by the function now
  }
  ~Blocked() { gate_.set_value(); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  std::promise<void> gate_;
};

/// Which of `others` wait for work that is queued on `candidate` before theirs, since they share
/// its hardware queue; bit i is that of others[i]. Streams that do not end their work within the
/// patience count as independent.
std::vector<bool> delayed_by(const CUDAStream& candidate, const std::vector<CUDAStream>& others) {
  const std::vector<bool> idle = have_happened(recorded(others));
  const Blocked blocked(candidate);
  const std::vector<bool> happened = have_happened(recorded(others));
  std::vector<bool> delayed(others.size());
  for (std::size_t i = 0; i < others.size(); ++i) delayed[i] = idle[i] && !happened[i];
  return delayed;
}

/// Streams whose queue the new one shares: with those it must not, and with others.
struct Shared {
  int forbidden = 0, others = 0;
  auto operator<=>(const Shared&) const = default;
};

Shared shared_by(const CUDAStream& candidate, StreamUse use, const std::vector<InUse>& in_use) {
  std::vector<CUDAStream> streams;
  for (const InUse& one : in_use) streams.push_back(one.stream);
  const std::vector<bool> delayed = delayed_by(candidate, streams);
  Shared shared;
  for (std::size_t i = 0; i < in_use.size(); ++i) {
    if (!delayed[i]) continue;
    const bool is_forbidden = use == StreamUse::kMessages || in_use[i].use == StreamUse::kMessages;
    ++(is_forbidden ? shared.forbidden : shared.others);
  }
  return shared;
}

CUDAStream best_stream(c10::DeviceIndex device, StreamUse use, const std::vector<InUse>& in_use) {
  std::vector<std::pair<Shared, CUDAStream>> tried;
  do {
    const CUDAStream candidate = new_stream(device);
    tried.emplace_back(shared_by(candidate, use, in_use), candidate);
  } while (tried.back().first != Shared{} && tried.size() < kTries);
  const auto best = std::min_element(
      tried.begin(), tried.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto one = tried.begin(); one != tried.end(); ++one)
    if (one != best) destroy(one->second);
  if (best->first.forbidden > 0) {
    std::fprintf(stderr,
                 "trireme: GPU %d has too few hardware queues: messages share one with %d other "
                 "streams, so ranks may wait for one another; pipeline.transport: mpi avoids it\n",
                 static_cast<int>(device), best->first.forbidden);
  }
  return best->second;
}

}  // namespace

OwnStream::OwnStream(c10::DeviceIndex device, StreamUse use)
    : stream_(c10::cuda::getDefaultCUDAStream(device)) {
  const c10::cuda::CUDAGuard on_device(device);
  const std::lock_guard lock(streams_mutex);
  std::vector<InUse>& in_use = streams_in_use()[device];
  if (in_use.empty()) in_use.push_back({stream_, StreamUse::kCopies});
  stream_ = best_stream(device, use, in_use);
  in_use.push_back({stream_, use});
}

OwnStream::~OwnStream() {
  {
    const std::lock_guard lock(streams_mutex);
    std::erase_if(streams_in_use()[stream_.device_index()],
                  [this](const InUse& one) { return one.stream == stream_; });
  }
  destroy(stream_);
}

}  // namespace trireme::tier
