// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include "trireme/core/text.h"

namespace trireme::report {
namespace {

using program::Op;
using simulate::Event;
using simulate::Lane;

Kind kind_on_compute(const Event& event);

}  // namespace

Kind kind_of(const Event& event) {
  switch (event.lane) {
    case Lane::kCompute:
      return kind_on_compute(event);
    case Lane::kOut:
    case Lane::kIn:
    case Lane::kWeights:
    case Lane::kWeightsOut:
      return Kind::kCopy;
    case Lane::kLink:
      return program::is_receive(event.action.op) ? Kind::kWait : Kind::kMessage;
  }
  return Kind::kOther;
}

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kRecompute:
      return "recompute";
    case Kind::kBackward:
      return "backward";
    case Kind::kWeights:
      return "weights";
    case Kind::kCopy:
      return "copy";
    case Kind::kMessage:
      return "message";
    case Kind::kWait:
      return "wait";
    case Kind::kOther:
      return "other";
  }
  return "";
}

Row row_of(const Event& event) {
  if (event.lane != Lane::kLink) return {.lane = event.lane};
  const Op op = event.action.op;
  return {.lane = event.lane,
          .peer = event.peer,
          .gradients = op == Op::kSendGradient || op == Op::kReceiveGradient,
          .arriving = program::is_receive(op)};
}

std::string name(const Row& row) {
  switch (row.lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kOut:
      return "copies out";
    case Lane::kIn:
      return "copies in";
    case Lane::kWeights:
      return "weights in";
    case Lane::kWeightsOut:
      return "weights out";
    case Lane::kLink: {
      const std::string_view what = row.gradients ? "gradients" : "outputs";
      if (row.peer < 0) return concat(what, row.arriving ? " awaited" : " sent");
      return concat(what, row.arriving ? " from" : " to", " rank ", row.peer);
    }
  }
  return "";
}

namespace {

Kind kind_on_compute(const Event& event) {
  switch (event.action.op) {
    case Op::kForward:
    case Op::kForwardKeep:
    case Op::kForwardTape:
    case Op::kRetape:
    case Op::kCompute:
      return event.again ? Kind::kRecompute : Kind::kForward;
    case Op::kBackward:
    case Op::kBackwardInput:
      return Kind::kBackward;
    case Op::kGradient:
      return event.again ? Kind::kRecompute : Kind::kBackward;
    case Op::kBackwardWeights:
      return Kind::kWeights;
    case Op::kOffload:
    case Op::kPrefetch:
    case Op::kOffloadTape:
    case Op::kPrefetchTape:
    case Op::kSendOutput:
    case Op::kReceiveInput:
    case Op::kSendGradient:
    case Op::kReceiveGradient:
      return Kind::kWait;
    default:
      return Kind::kOther;
  }
}

}  // namespace
}  // namespace trireme::report
