// SPDX-License-Identifier: Apache-2.0
#include "nccl/communicator.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// Time between polls: short at first, for operations that take microseconds.
constexpr std::chrono::microseconds kShortestNap{5}, kLongestNap{200};
constexpr std::chrono::milliseconds kLookRoundEvery{50};

/// Maximum number of multiprocessors (CTAs) of a message's kernel, which spins while this GPU
/// computes, from the call of NCCL until the other rank's device reaches the message. NCCL would
/// take up to 32 for GPUs joined by switches. NCCL_MAX_CTAS overrides it.
constexpr int kMostBlocks = 8;

}  // namespace

bool poll_until(const Patience& patience, const std::function<bool()>& ended) {
  const auto begin = Clock::now();
  auto looked_round = begin;
  auto nap = kShortestNap;
  while (!ended()) {
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - begin).count() > patience.timeout.count()) return false;
    if (patience.look_round && now - looked_round > kLookRoundEvery) {
      patience.look_round();
      looked_round = now;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
  return true;
}

std::string Communicator::make_id() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    throw CommError(concat("NCCL: ncclGetUniqueId: ", ncclGetErrorString(result), ": ",
                           ncclGetLastError(nullptr)));
  }
  return {id.internal, sizeof id.internal};
}

Communicator::Communicator(const std::string& id, int ranks, int rank, Patience patience)
    : patience_(std::move(patience)) {
  ncclUniqueId unique;
  ensure(id.size() == sizeof unique.internal, "an id of NCCL has its size");
  std::memcpy(unique.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kMostBlocks;
  try {
    settle(ncclCommInitRankConfig(&comm_, ranks, unique, rank, &config), "ncclCommInitRankConfig");
  } catch (...) {
    abort();
    throw;
  }
}

Communicator::~Communicator() {
  abort();
}

void Communicator::send(const std::byte* data, std::size_t size, int to, cudaStream_t stream) {
  ensure(comm_ != nullptr, "the communicator is in use");
  settle(ncclSend(data, size, ncclInt8, to, comm_, stream), "ncclSend");
}

void Communicator::receive(std::byte* data, std::size_t size, int from, cudaStream_t stream) {
  ensure(comm_ != nullptr, "the communicator is in use");
  settle(ncclRecv(data, size, ncclInt8, from, comm_, stream), "ncclRecv");
}

void Communicator::pass_to_itself(const std::byte* from, std::byte* to, std::size_t size,
                                  cudaStream_t stream) {
  ensure(comm_ != nullptr, "the communicator is in use");
  ncclGroupStart();
  const ncclResult_t sent = ncclSend(from, size, ncclInt8, 0, comm_, stream);
  const ncclResult_t received = ncclRecv(to, size, ncclInt8, 0, comm_, stream);
  const ncclResult_t ended = ncclGroupEnd();
  for (const ncclResult_t part : {sent, received})
    if (part != ncclSuccess && part != ncclInProgress) fail(part, "ncclSend to itself");
  settle(ended, "ncclGroupEnd");
}

std::optional<std::string> Communicator::error() {
  if (comm_ == nullptr) return std::nullopt;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) state = asked;
  if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
  return concat("NCCL: ", ncclGetErrorString(state), ": ", ncclGetLastError(comm_));
}

void Communicator::close() {
  if (comm_ == nullptr) return;
  settle(ncclCommFinalize(comm_), "ncclCommFinalize");
  ncclComm_t const comm = std::exchange(comm_, nullptr);
  const ncclResult_t result = ncclCommDestroy(comm);
  if (result != ncclSuccess)
    throw CommError(concat("NCCL: ncclCommDestroy: ", ncclGetErrorString(result)));
}

void Communicator::abort() noexcept {
  // Never ncclCommDestroy after an error: it waits for the other rank.
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

void Communicator::settle(ncclResult_t result, std::string_view call) {
  ncclResult_t state = result;
  const bool ended = poll_until(patience_, [&] {
    if (state != ncclInProgress) return true;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    return state != ncclInProgress;
  });
  if (!ended)
    throw CommError(concat("NCCL: ", call, ": the other rank did not do its part within ",
                           patience_.timeout.count(),
                           " s (pipeline.timeout): it is stuck, dead or cut off"));
  if (state != ncclSuccess) fail(state, call);
}

void Communicator::fail(ncclResult_t result, std::string_view call) {
  const std::string words = ncclGetLastError(comm_);
  const std::string advice =
      words.find("Duplicate GPU") == std::string::npos
          ? ""
          : "; every rank needs a GPU of its own, or pipeline.transport: mpi";
  throw CommError(concat("NCCL: ", call, ": ", ncclGetErrorString(result), ": ", words, advice));
}

}  // namespace trireme::comm
