// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/heartbeat.h"

#include "trireme/comm/host.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <string>
#include <vector>

namespace trireme::comm {
namespace {

constexpr std::chrono::seconds kRound{1};
constexpr std::chrono::milliseconds kLook{20};

// A rank's message in each heartbeat: one of these and its machine, and after kFailed the exit code
// and the error message, each on a line of its own.
constexpr char kMore = 'm', kDone = 'd', kFailed = 'f', kLineEnd = '\n';

std::string failed(const std::exception& error) {
  return concat(kFailed, host_name(), kLineEnd, static_cast<int>(ending_of(error)), kLineEnd,
                error.what());
}

std::string host_of(const std::string& told) {
  return told.substr(1, told.find(kLineEnd) - 1);
}

/// Throws the error that `rank` reported, the same on every rank; names its machine if the ranks
/// are on several, so that it does not matter which rank prints it.
[[noreturn]] void throw_heard(const std::vector<std::string>& told, std::size_t rank) {
  const std::string& heard = told[rank];
  const std::size_t host_end = heard.find(kLineEnd), code_end = heard.find(kLineEnd, host_end + 1);
  const auto ending = static_cast<Ending>(std::stoi(heard.substr(host_end + 1)));
  const std::string host = host_of(heard), words = heard.substr(code_end + 1);
  const bool one_machine = std::all_of(told.begin(), told.end(),
                                       [&](const auto& other) { return host_of(other) == host; });
  const std::string text = one_machine ? words : concat("rank ", rank, " on ", host, ": ", words);
  if (ending == Ending::kWrongInput) throw InputError(text);
  if (ending == Ending::kStopped) throw Interrupted(text);
  throw ToldError(ending, text);
}

// Exchanges heartbeats with the other ranks until none has more work; `look` returns whether this
// rank has, or throws its error.
void meet(Channel& channel, const std::function<bool()>& look, std::string_view what) {
  const std::vector<int> all = everyone(channel);
  bool has_more = true;
  for (;;) {
    std::string mine;
    try {
      const auto end = std::chrono::steady_clock::now() + kRound;
      while (has_more && std::chrono::steady_clock::now() < end) has_more = look();
      mine = concat(has_more ? kMore : kDone, host_name());
    } catch (const Error& error) {
      mine = failed(error);
    }
    const std::vector<std::string> told = all_gather(channel, all, mine, what);
    for (std::size_t rank = 0; rank < told.size(); ++rank)
      if (told[rank].front() == kFailed) throw_heard(told, rank);
    if (std::all_of(told.begin(), told.end(), [](const auto& text) { return text[0] == kDone; }))
      return;
  }
}

}  // namespace

void run_pieces_with_heartbeat(Channel& channel, const std::function<bool()>& piece,
                               std::string_view what) {
  std::promise<void> promise;
  std::shared_future<void> ended = promise.get_future().share();
  const auto look = [ended] {
    if (ended.wait_for(kLook) == std::future_status::timeout) return true;
    ended.get();  // throws what the work threw
    return false;
  };
  std::future<void> rounds =
      std::async(std::launch::async, [&channel, look, what] { meet(channel, look, what); });
  // The heartbeats end before this rank's work if another rank's work has failed.
  const auto go_on = [&] {
    return rounds.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  };
  try {
    while (go_on() && piece()) {
    }
    promise.set_value();
  } catch (...) {
    promise.set_exception(std::current_exception());
  }
  rounds.get();
}

void run_with_heartbeat(Channel& channel, const std::function<void()>& work,
                        std::string_view what) {
  run_pieces_with_heartbeat(
      channel,
      [&] {
        work();
        return false;
      },
      what);
}

}  // namespace trireme::comm
