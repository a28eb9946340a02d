// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/rounds.h"

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

// What a rank tells the others of its round: one of these, and behind the last two its machine and
// the message.
constexpr char kMore = 'm', kDone = 'd', kInputError = 'i', kError = 'e', kBehindHost = '\n';

std::string failed(char kind, const std::exception& error) {
  return concat(kind, host_name(), kBehindHost, error.what());
}

// With the rank's place where that is another machine.
std::string heard(const std::string& told, std::size_t rank) {
  const std::size_t end = told.find(kBehindHost);
  const std::string host = told.substr(1, end - 1), words = told.substr(end + 1);
  return host == host_name() ? words : concat("rank ", rank, " on ", host, ": ", words);
}

// Meets the other ranks until none has more; `look` says whether this one has, or throws.
void meet(Channel& channel, const std::function<bool()>& look, std::string_view what) {
  const std::vector<int> all = everyone(channel);
  bool has_more = true;
  for (;;) {
    std::string mine;
    std::exception_ptr failure;
    try {
      const auto end = std::chrono::steady_clock::now() + kRound;
      while (has_more && std::chrono::steady_clock::now() < end) has_more = look();
      mine = has_more ? kMore : kDone;
    } catch (const InputError& error) {
      failure = std::current_exception();
      mine = failed(kInputError, error);
    } catch (const Interrupted& error) {
      failure = std::current_exception();
      mine = failed(kError, error);
    } catch (const Error& error) {
      mine = failed(kError, error);
    }
    const std::vector<std::string> told = all_gather(channel, all, mine, what);
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      const std::string& text = told[rank];
      if (text.front() != kInputError && text.front() != kError) continue;
      if (failure && static_cast<int>(rank) == channel.rank()) std::rethrow_exception(failure);
      if (text.front() == kInputError) throw InputError(heard(text, rank));
      throw ToldError(heard(text, rank));
    }
    if (std::all_of(told.begin(), told.end(), [](const auto& text) { return text[0] == kDone; }))
      return;
  }
}

}  // namespace

void work_in_rounds(Channel& channel, const std::function<bool()>& piece, std::string_view what) {
  std::promise<void> promise;
  std::shared_future<void> ended = promise.get_future().share();
  const auto look = [ended] {
    if (ended.wait_for(kLook) == std::future_status::timeout) return true;
    ended.get();  // throws what the work threw
    return false;
  };
  std::future<void> rounds =
      std::async(std::launch::async, [&channel, look, what] { meet(channel, look, what); });
  // They end before the work where another rank's has failed.
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

void work_beside_rounds(Channel& channel, const std::function<void()>& work,
                        std::string_view what) {
  work_in_rounds(
      channel,
      [&] {
        work();
        return false;
      },
      what);
}

}  // namespace trireme::comm
