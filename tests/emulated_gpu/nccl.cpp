// Functions of NCCL that Trireme calls: communicators of one rank, which sends to itself, or of
// two, of which the first sends. Ranks are threads or processes of one machine; their messages go
// over a socket. A send ends when its receive has ended, as NCCL's may: callers cannot count on
// less. On timed GPUs ranks are threads, and messages carry nothing but their time.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"
#include "timed.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// NCCL's name of the type that its users hold by pointer.
struct ncclComm {
  int ranks = 0, rank = 0, device = 0;
  std::string address;  ///< of the socket, in the abstract namespace

  std::mutex mutex;
  std::condition_variable changed;
  ncclResult_t state = ncclInProgress;
  std::string words;
  int socket = -1;
  bool is_aborted = false;

  ncclComm() = default;
  ~ncclComm() {
    if (socket >= 0) ::close(socket);
  }
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;

  void settle(ncclResult_t result, std::string why = {}) {
    const std::lock_guard lock(mutex);
    state = result;
    words = std::move(why);
    changed.notify_all();
  }
  ncclResult_t current() {
    const std::lock_guard lock(mutex);
    return state;
  }
  bool has_ended() {
    const std::lock_guard lock(mutex);
    return is_aborted;
  }

  std::size_t messages = 0;  ///< of timed GPUs, so far
};

namespace emulated {
namespace {

using Comm = std::shared_ptr<ncclComm>;

/// Users hold raw pointers; streams that still have work hold these.
struct Comms {
  std::mutex mutex;
  std::vector<Comm> all;
};
Comms& comms() {
  static auto* const value = new Comms;
  return *value;
}
Comm comm_of(ncclComm_t bare) {
  const std::lock_guard lock(comms().mutex);
  for (const Comm& comm : comms().all)
    if (comm.get() == bare) return comm;
  return nullptr;
}

bool write_all(int socket, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ssize_t count = ::send(socket, from, size, MSG_NOSIGNAL);
    if (count <= 0) return false;
    from += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}
bool read_all(int socket, void* data, std::size_t size) {
  auto* to = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t count = ::recv(socket, to, size, 0);
    if (count <= 0) return false;
    to += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

/// Opens the second rank's socket, or the one on which the first rank listens; -1 if it fails.
int open_socket(const Comm& comm, bool listens) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, comm->address.data(), comm->address.size());
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + comm->address.size());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listens ? ::bind(socket, name, size) == 0 && ::listen(socket, 1) == 0
              : ::connect(socket, name, size) == 0)
    return socket;
  ::close(socket);
  return -1;
}

/// The socket to the other rank; -1 if the communicator is aborted before.
int met(const Comm& comm) {
  if (comm->rank == 1) {
    while (!comm->has_ended()) {
      if (const int socket = open_socket(comm, false); socket >= 0) return socket;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return -1;
  }
  const int door = open_socket(comm, true);
  timeval patience{.tv_sec = 0, .tv_usec = 10'000};
  ::setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  int socket = -1;
  while (socket < 0 && !comm->has_ended()) socket = ::accept(door, nullptr, nullptr);
  ::close(door);
  return socket;
}

/// The machine that a rank is on, as NCCL sees it: NCCL_HOSTID can give it any name.
struct Seat {
  std::uint64_t host = 0, device = 0;
  bool operator==(const Seat&) const = default;
};
Seat seat_of(const Comm& comm) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const char* const host = std::getenv("NCCL_HOSTID");
  return {.host = std::hash<std::string>()(host == nullptr ? "" : host),
          .device = static_cast<std::uint64_t>(comm->device)};
}

void connect(const Comm& comm) {
  const int socket = met(comm);
  if (socket < 0) return;
  {
    const std::lock_guard lock(comm->mutex);
    comm->socket = socket;
  }
  const Seat mine = seat_of(comm);
  Seat other;
  if (!write_all(socket, &mine, sizeof mine) || !read_all(socket, &other, sizeof other))
    return comm->settle(ncclRemoteError, "the other rank is gone");
  if (other == mine) {
    return comm->settle(ncclInvalidUsage,
                        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA "
                        "device " +
                            std::to_string(comm->device));
  }
  comm->settle(ncclSuccess);
}

/// Like a kernel that waits for a rank that will not come: until it is aborted.
void hang(const Comm& comm, const std::string& why) {
  std::unique_lock lock(comm->mutex);
  if (comm->state == ncclSuccess) {
    comm->state = ncclRemoteError;
    comm->words = why;
  }
  comm->changed.wait(lock, [&] { return comm->is_aborted; });
}

/// One half of a message, as work of a stream.
struct Half {
  Comm comm;
  bool sends;
  std::byte* data;
  std::size_t size;

  void run() const {
    if (comm->has_ended()) return;
    if (!Machine::get().map().is_all(data, size, MemoryKind::kDevice))
      return Machine::get().fault("a message over NCCL touches memory that is not there any more");
    std::uint64_t announced = size;
    char received = 0;
    const int socket = comm->socket;
    if (sends) {
      if (!write_all(socket, &announced, sizeof announced) || !write_all(socket, data, size) ||
          !read_all(socket, &received, 1))
        hang(comm, "the receiver is gone");
      return;
    }
    if (!read_all(socket, &announced, sizeof announced)) return hang(comm, "the sender is gone");
    if (announced != size) return hang(comm, "the message's size is not the receive's");
    if (!read_all(socket, data, size) || !write_all(socket, &received, 1))
      hang(comm, "the sender is gone");
  }
};

/// Messages of timed GPUs of which one rank has queued its side, by communicator and number.
struct Halves {
  std::mutex mutex;
  std::map<std::pair<std::string, std::size_t>, Moment::Ptr> open;
  std::map<std::string, Link> links;  ///< by communicator: one way each
};
Halves& halves() {
  static auto* const value = new Halves;
  return *value;
}

/// The next message of this communicator: one for both ranks.
Moment::Ptr next_message(ncclComm& comm, std::size_t size) {
  const std::lock_guard lock(halves().mutex);
  const auto [place, is_new] = halves().open.try_emplace({comm.address, comm.messages++});
  if (!is_new) return halves().open.extract(place).mapped();
  const std::chrono::duration<double> time(
      std::max(static_cast<double>(size) / rates().links, rates().least));
  return place->second = std::make_shared<Moment>(std::chrono::duration_cast<Clock::duration>(time),
                                                  &halves().links[comm.address], /*parts=*/2);
}

/// Streams that wait for one side of a message wait no more.
void give_up_messages(const ncclComm& comm) {
  const std::lock_guard lock(halves().mutex);
  for (const auto& [place, message] : halves().open)
    if (place.first == comm.address) Moment::give_up(message);
}

thread_local int group_depth = 0;
thread_local std::vector<std::pair<Half, cudaStream_t>> group;

ncclResult_t take(bool sends, const void* data, std::size_t size, ncclDataType_t type, int peer,
                  ncclComm_t bare, cudaStream_t stream) {
  Half half{comm_of(bare), sends, static_cast<std::byte*>(const_cast<void*>(data)), size};
  const bool is_alone = half.comm && half.comm->ranks == 1;
  // The first rank of two sends to the second.
  const bool fits = half.comm && type == ncclInt8 && half.comm->current() == ncclSuccess &&
                    (is_alone ? peer == 0 && group_depth > 0
                              : half.comm->rank == (sends ? 0 : 1) && peer == (sends ? 1 : 0));
  if (!fits) return ncclInvalidUsage;
  if (group_depth > 0)
    group.emplace_back(std::move(half), stream);
  else if (is_timed())
    stream_of(stream).meet(next_message(*half.comm, size));
  else
    stream_of(stream).give([half = std::move(half)] { half.run(); });
  return ncclSuccess;
}

}  // namespace
}  // namespace emulated

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  for (char& letter : id->internal) letter = static_cast<char>('a' + random() % 26);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* result, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > 2 || config->blocking != 0) return ncclInvalidUsage;
  auto comm = std::make_shared<ncclComm>();
  comm->ranks = ranks;
  comm->rank = rank;
  cudaGetDevice(&comm->device);
  comm->address.assign(id.internal, 64);
  *result = comm.get();
  {
    const std::lock_guard lock(emulated::comms().mutex);
    emulated::comms().all.push_back(comm);
  }
  if (ranks == 1)
    comm->settle(ncclSuccess);
  else
    std::thread([comm] { emulated::connect(comm); }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->current();
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->words.c_str();
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unhandled system error";
  }
}

ncclResult_t ncclCommAbort(ncclComm_t bare) {
  const emulated::Comm comm = emulated::comm_of(bare);
  if (!comm) return ncclInvalidArgument;
  {
    const std::lock_guard lock(comm->mutex);
    comm->is_aborted = true;
    if (comm->socket >= 0) ::shutdown(comm->socket, SHUT_RDWR);
    comm->changed.notify_all();
  }
  emulated::give_up_messages(*comm);
  // NCCL frees device memory, which takes until all kernels of the device have ended.
  int current = 0;
  cudaGetDevice(&current);
  cudaSetDevice(comm->device);
  cudaDeviceSynchronize();
  cudaSetDevice(current);
  const std::lock_guard lock(emulated::comms().mutex);
  std::erase(emulated::comms().all, comm);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return ncclCommAbort(comm);
}

ncclResult_t ncclSend(const void* data, std::size_t size, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return emulated::take(true, data, size, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t size, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return emulated::take(false, data, size, type, peer, comm, stream);
}
ncclResult_t ncclGroupStart() {
  ++emulated::group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--emulated::group_depth > 0) return ncclSuccess;
  const auto halves = std::exchange(emulated::group, {});
  if (halves.empty()) return ncclSuccess;
  // Everything grouped here: messages of a rank to itself.
  if (halves.size() != 2 || !halves[0].first.sends || halves[1].first.sends ||
      halves[0].first.size != halves[1].first.size)
    return ncclInvalidUsage;
  emulated::stream_of(halves[0].second).give([from = halves[0].first, to = halves[1].first] {
    if (!from.comm->has_ended() && !emulated::is_timed()) std::memcpy(to.data, from.data, to.size);
  });
  return ncclSuccess;
}

}  // extern "C"
