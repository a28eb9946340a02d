// SPDX-License-Identifier: Apache-2.0
#include "nccl/signals.h"

#include "trireme/core/error.h"

#include <span>
#include <type_traits>
#include <utility>

namespace trireme::comm {

static_assert(std::is_trivially_copyable_v<Signal>);

Signals::Signals(Channel& control, int peer) : control_(control), peer_(peer) {
  expect_next();
}

void Signals::expect_next() {
  next_ =
      control_.receive(std::as_writable_bytes(std::span(&received_, 1)), peer_, Stream::kSignals);
}

void Signals::send(const Signal& signal) {
  while (!sent_.empty() && sent_.front().transfer->done()) sent_.pop_front();
  Sent sent{.signal = std::make_unique<Signal>(signal), .transfer = nullptr};
  sent.transfer =
      control_.send(std::as_bytes(std::span(sent.signal.get(), 1)), peer_, Stream::kSignals);
  sent_.push_back(std::move(sent));
}

std::optional<Signal> Signals::take() {
  if (has_ended_ || has_failed_ || !next_->done()) return std::nullopt;
  try {
    next_->wait("a signal");
  } catch (const CommError&) {
    has_failed_ = true;  // wait() throws it once more, with the name of what the rank waits for
    return std::nullopt;
  }
  if (received_.kind == Signal::Kind::kEnd) {
    has_ended_ = true;
    return std::nullopt;
  }
  const Signal signal = received_;
  expect_next();
  return signal;
}

void Signals::close() {
  while (!has_ended_) {  // what a link that was given up did not take is dropped
    wait("close");
    static_cast<void>(take());
  }
  for (const Sent& sent : sent_) sent.transfer->wait("close");
  sent_.clear();
}

}  // namespace trireme::comm
