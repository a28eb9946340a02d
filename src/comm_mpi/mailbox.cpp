// SPDX-License-Identifier: Apache-2.0
#include "mailbox.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <memory>
#include <span>
#include <utility>

namespace trireme::comm {
namespace {

constexpr int kTag = 0;

void require_well(const Completion& completion) {
  if (!completion.problem.empty())
    throw CommError(concat("a control message: ", completion.problem));
}

}  // namespace

Mailbox::Mailbox(const Communicators& world, Requests& requests, Handler arrived)
    : world_(world), requests_(requests), arrived_(std::move(arrived)) {
  receive_next();
}

void Mailbox::send(int to, const ControlMessage& message) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(encode(message));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, to, kTag,
                  world_.control, &request),
        "MPI_Isend");
  ++unsent_;
  requests_.add(request, [this, bytes](const Completion& completion) {
    --unsent_;
    require_well(completion);
  });
}

void Mailbox::send_to_others(const ControlMessage& message) {
  for (int to = 0; to < world_.size; ++to)
    if (to != world_.rank) send(to, message);
}

void Mailbox::stop_receiving() {
  receiving_ = false;
  if (receive_) requests_.cancel(*receive_);
}

void Mailbox::receive_next() {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE, MPI_ANY_SOURCE,
                  kTag, world_.control, &request),
        "MPI_Irecv");
  receive_ = requests_.add(request, [this](const Completion& completion) {
    receive_.reset();
    require_well(completion);
    if (completion.cancelled) return;
    const ControlMessage message = decode(std::span(incoming_).first(completion.bytes));
    if (receiving_) receive_next();
    arrived_(completion.source, message);
  });
}

}  // namespace trireme::comm
