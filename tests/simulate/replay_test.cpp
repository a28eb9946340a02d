// Replay against cases worked out by hand and against published schedules.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/simulate/replay.h"

#include "simulate/chains.h"

#include "trireme/core/error.h"
#include "trireme/program/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::simulate {
namespace {

using program::Action;
using program::Op;
using testing::HasSubstr;

Replay sound(const chain::Chain& chain, const program::StageProgram& program,
             const CopyLanes& lanes = {}) {
  const Replay replay = simulate::replay(chain, program, lanes);
  EXPECT_EQ(replay.fault ? to_text(*replay.fault) : "", "");
  return replay;
}

std::string fault_of(const chain::Chain& chain, const program::StageProgram& program,
                     const CopyLanes& lanes = {}) {
  const Replay replay = simulate::replay(chain, program, lanes);
  return replay.fault ? to_text(*replay.fault) : "none";
}

struct RotorCase {
  const char* schedule;
  double time;
  int peak, held;
};

class RotorSchedulesOfChainA : public testing::TestWithParam<RotorCase> {};

// Optimal schedules at the least memory that admits them, so their peaks are that memory. Produced
// by the dynamic program of rotor (Beaumont et al., RR-9302), memory with x_0 included.
TEST_P(RotorSchedulesOfChainA, HaveTheirTimePeakAndHeldBytes) {
  const auto& [schedule, time, peak, held] = GetParam();

  const Replay replay = sound(with_loss_layer(chain_a()), from_rotor(schedule, 4));

  EXPECT_DOUBLE_EQ(replay.time.count(), time);
  EXPECT_EQ(replay.peak, Bytes(peak));
  EXPECT_EQ(replay.kept, Bytes(held));
  EXPECT_DOUBLE_EQ(replay.recompute.count(), time - 26);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RotorSchedulesOfChainA,
    testing::Values(RotorCase{"Fc0 Fn1 Fc2 Fe3 L B3 Fe2 B2 Fc0 Fe1 B1 Fe0 B0", 34, 10, 6},
                    RotorCase{"Fc0 Fn1 Fc2 Fe3 L B3 Fe2 B2 Fe0 Fe1 B1 B0", 32, 11, 6},
                    RotorCase{"Fc0 Fn1 Fe2 Fe3 L B3 B2 Fe0 Fe1 B1 B0", 31, 12, 9},
                    RotorCase{"Fc0 Fe1 Fc2 Fe3 L B3 Fe2 B2 B1 Fe0 B0", 29, 14, 10},
                    RotorCase{"Fe0 Fe1 Fc2 Fe3 L B3 Fe2 B2 B1 B0", 27, 16, 12},
                    RotorCase{"Fe0 Fe1 Fe2 Fe3 L B3 B2 B1 B0", 26, 18, 15}));

TEST(RotorScheduleOfChainB, NeedsTheLeastMemoryThereIs) {
  const Replay replay =
      sound(with_loss_layer(chain_b()),
            from_rotor("Fc0 Fn1 Fe2 Fe3 Fe4 Fe5 L B5 B4 B3 B2 Fc0 Fe1 B1 Fe0 B0", 6));

  EXPECT_DOUBLE_EQ(replay.time.count(), 95);
  EXPECT_EQ(replay.peak, Bytes(25));
  EXPECT_EQ(replay.kept, Bytes(21));
}

/// Two layers in powers of ten: x = 1, 10, 100, tapes 2000 and 30'000.
chain::Chain two_layers() {
  return chain_of(1, {{1, 2, 10, 2000, 4, 5, 6}, {3, 4, 100, 30'000, 7, 8, 9}});
}

TEST(Replay, KeepAllByHand) {
  const Replay replay = sound(two_layers(), program::keep_all(1, 2));

  EXPECT_DOUBLE_EQ(replay.forward.count(), 4);
  EXPECT_DOUBLE_EQ(replay.backward.count(), 6);
  EXPECT_DOUBLE_EQ(replay.time.count(), 10);
  EXPECT_DOUBLE_EQ(replay.recompute.count(), 0);
  EXPECT_EQ(replay.kept, Bytes(1 + 2000 + 30'000));
  EXPECT_EQ(replay.peak, Bytes(32'001 + 100 + 9));  // with the gradient of x[2]
  EXPECT_EQ(replay.peak_at, (Action{Op::kBackward, 2}));
}

TEST(Replay, RecomputeAllByHand) {
  const Replay replay = sound(two_layers(), program::recompute_all(1, 2));

  EXPECT_DOUBLE_EQ(replay.time.count(), 14);
  EXPECT_DOUBLE_EQ(replay.recompute.count(), 4);
  EXPECT_EQ(replay.kept, Bytes(1 + 10)) << "x[2] is given away";
  EXPECT_EQ(replay.peak, Bytes(11 + 100 + 30'000 + 9));
  EXPECT_EQ(replay.peak_at, (Action{Op::kBackward, 2}));
}

TEST(Replay, FirstForwardCountsNoGradient) {
  // The forward's transient is far larger than anything the backward needs.
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 20, 5000, 0, 0}});

  const Replay replay = sound(chain, stage(1, 1, "forward_keep 1", "forward_tape 1, backward 1"));

  EXPECT_EQ(replay.peak, Bytes(1 + 10 + 5000));
  EXPECT_EQ(replay.peak_at, (Action{Op::kForwardKeep, 1}));
}

TEST(Replay, RecomputationCountsTheGradientOfItsSubChainsEnd) {
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 10, 5000}, {1, 1, 100, 100}});

  const Replay replay =
      sound(chain, stage(1, 2, "forward_keep 1, forward 2",
                         "forward_keep 1, forward_tape 2, backward 2, forward_tape 1, backward 1"));

  EXPECT_EQ(replay.peak, Bytes(1 + 100 + 10 + 5000));  // the gradient of x[2], not of x[1]
}

TEST(Replay, MiddleStageKeepsTheGradientOfItsInput) {
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 10}, {1, 1, 100, 1000}, {1, 1, 5, 5}});

  const Replay replay = sound(chain, program::keep_all(2, 2));

  EXPECT_EQ(replay.kept, Bytes(10 + 1000));
  EXPECT_EQ(replay.peak, Bytes(10 + 1000 + 100));
}

TEST(Replay, InputOfALiveTapeMayLeaveAndComeBack) {
  // Tape 2 is kept without x[1], which is recomputed before its backward and then serves layer 1.
  const Replay replay = sound(two_layers(), stage(1, 2, "forward_keep 1, forward_tape 2, drop 1",
                                                  "forward_tape 1, backward 2, backward 1"));

  EXPECT_DOUBLE_EQ(replay.time.count(), 11);
  EXPECT_EQ(replay.kept, Bytes(1 + 30'000));
  EXPECT_EQ(replay.peak, Bytes(1 + 30'000 + 100 + 2000 + 9));
}

TEST(Replay, OutputGoesOnBeforeItsTapeMayLeave) {
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 100}, {1, 1, 5, 5}});
  const CopyLanes lanes{BytesPerSecond(1000), BytesPerSecond(1000), {}};

  const Replay middle = sound(
      chain, stage(1, 1, "forward_tape 1, offload_tape 1", "prefetch_tape 1, backward 1"), lanes);
  const Replay last = sound(
      chain, stage(2, 2, "forward_tape 2, offload_tape 2", "prefetch_tape 2, backward 2"), lanes);

  EXPECT_EQ(middle.kept, Bytes(1));
  EXPECT_EQ(last.kept, Bytes(10)) << "without the gradient of the loss";
}

TEST(Replay, FaultsNamePlaceAndReason) {
  const chain::Chain chain = two_layers();
  EXPECT_EQ(fault_of(chain, stage(1, 2, "forward 1, forward 2", "forward_tape 2, backward 2")),
            "action 0 of the backward part, forward_tape 2: x[1] is not held");
  EXPECT_EQ(fault_of(chain, stage(1, 2, "forward_tape 1", "backward 1")),
            "end of the forward part: x[2] was not made");
  EXPECT_EQ(fault_of(chain, stage(1, 2, "forward_tape 1, forward_tape 2", "backward 2")),
            "end of the backward part: x[0] was never freed");
  EXPECT_EQ(fault_of(chain, stage(1, 2, "forward_tape 1, forward_tape 2, send_output 2", "")),
            "action 2 of the forward part, send_output 2: send_output is placed by lowering, not "
            "by a stage");
  EXPECT_EQ(fault_of(chain, stage(2, 2, "forward_tape 1", "")),
            "action 0 of the forward part, forward_tape 1: layer 1 is not in 2..2");
  EXPECT_THAT(fault_of(chain, program::keep_all(1, 1), {}), "none");
  EXPECT_THROW(simulate::replay(chain, program::keep_all(1, 3)), InputError);
}

TEST(Replay, KeptButNeverFreedIsAFault) {
  const chain::Chain chain = chain_of(1, {{1, 1, 10, 10}, {1, 1, 100, 100}, {1, 1, 5, 5}});
  EXPECT_THAT(fault_of(chain, stage(1, 2, "forward_keep 1, forward 2",
                                    "forward_keep 1, forward_tape 2, backward 2, forward_tape 1")),
              HasSubstr("x[0] was never freed"));
  EXPECT_THAT(fault_of(chain, stage(1, 1, "forward_keep 1, offload 0", ""),
                       {BytesPerSecond(1), BytesPerSecond(1), {}}),
              HasSubstr("x[0] was never brought back"));
}

/// Three layers of one second forward and backward, outputs and tapes of 10, input of 10.
chain::Chain tens() {
  return chain_of(10, {{1, 1, 10, 10}, {1, 1, 10, 10}, {1, 1, 10, 10}});
}

constexpr const char* kCopyForward =
    "forward_keep 1, offload 0, forward_keep 2, offload 1, forward_tape 3";
constexpr const char* kCopyBackward =
    "backward 3, prefetch 1, forward_tape 2, prefetch 0, backward 2, forward_tape 1, backward 1";

TEST(ReplayCopies, HideBehindComputeWhereTheyCan) {
  // Copies of one second. Out: x[0] 1..2, x[1] 2..3. Compute: forward until 3, backward 3 until 4.
  // In: x[1] 4..5, for which tape 2 waits until 5; x[0] from 6 to 7, while backward 2 runs 6..7.
  const Replay replay = sound(tens(), stage(1, 3, kCopyForward, kCopyBackward),
                              {BytesPerSecond(10), BytesPerSecond(10), {}});

  EXPECT_DOUBLE_EQ(replay.forward.count(), 3);
  EXPECT_DOUBLE_EQ(replay.time.count(), 9);
  EXPECT_EQ(replay.moved, Bytes(20));
  EXPECT_EQ(replay.kept, Bytes(10 + 10)) << "x[2] and tape 3";
  // 2..3: x[1] being copied out, x[2], tape 3. 3: x[2], tape 3, gradient 3. 6..7: x[1], tape 2,
  // gradient, x[0] being copied in.
  EXPECT_EQ(replay.peak, Bytes(40));
}

TEST(ReplayCopies, BytesStayUntilTheCopyOutHasEnded) {
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 10}, {1, 1, 10, 10}});
  const auto program = stage(1, 2, "forward_keep 1, offload 0, forward_tape 2",
                             "backward 2, prefetch 0, forward_tape 1, backward 1");
  // Fast: x[1] + tape 2 + gradient = 30, and nothing else.
  EXPECT_EQ(sound(chain, program, {BytesPerSecond(1e6), BytesPerSecond(1e6), {}}).peak, Bytes(30));
  // A copy out of five seconds: x[0] is still there through the first backward.
  EXPECT_EQ(sound(chain, program, {BytesPerSecond(2), BytesPerSecond(1e6), {}}).peak, Bytes(40));
}

TEST(ReplayCopies, ReturnBeginsWhenTheLeavingHasEnded) {
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 10}, {1, 1, 10, 10}});
  const auto program = stage(1, 2, "forward_keep 1, offload 0, forward_tape 2",
                             "backward 2, prefetch 0, forward_tape 1, backward 1");
  // Out 1..6, in 6..11, then one forward and one backward.
  const Replay replay = sound(chain, program, {BytesPerSecond(2), BytesPerSecond(2), {}});
  EXPECT_DOUBLE_EQ(replay.time.count(), 13);
}

TEST(ReplayCopies, WaitForRoomOnlyUnderABudget) {
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 10}, {1, 1, 10, 10}});
  const auto program = stage(1, 2, "forward_keep 1, offload 0, forward_tape 2",
                             "backward 2, prefetch 0, forward_tape 1, backward 1");
  CopyLanes lanes{BytesPerSecond(2), BytesPerSecond(10), Bytes(30)};
  // Out 1..6. With 30 bytes the forward of 2 runs 1..2, the gradient (10 more) waits until 6, back-
  // ward 2 6..7, in 7..8, forward 8..9, backward 9..10.
  const Replay within = sound(chain, program, lanes);
  EXPECT_EQ(within.peak, Bytes(30));
  EXPECT_DOUBLE_EQ(within.time.count(), 10);
  // With 20 bytes the forward of 2 waits as well. Nothing makes 30 fit, so the backward exceeds.
  lanes.budget = Bytes(20);
  EXPECT_EQ(sound(chain, program, lanes).peak, Bytes(30));
  EXPECT_DOUBLE_EQ(sound(chain, program, lanes).forward.count(), 7);
}

TEST(ReplayCopies, CopyInWaitsForRoomToo) {
  // Tapes of 10: x[0] leaves 1..2, tape 1 (30 bytes) 2..5; x[0] may come back only when both fit.
  const chain::Chain chain = chain_of(10, {{1, 1, 10, 30}, {1, 1, 0, 0}});
  const auto program = stage(1, 2, "forward_tape 1, offload 0, forward_tape 2, offload_tape 1",
                             "prefetch 0, prefetch_tape 1, backward 2, backward 1");
  // Out: x[0] 1..2, tape 1 2..5. In: x[0] 2..3 fits into 40, tape 1 after it has left, 5..8.
  const Replay replay = sound(chain, program, {BytesPerSecond(10), BytesPerSecond(10), Bytes(40)});
  EXPECT_DOUBLE_EQ(replay.time.count(), 10);
  EXPECT_EQ(replay.peak, Bytes(10 + 30 + 10));  // backward 2 adds the gradient of x[1]
  // Into 35, the forward of 2 waits for x[0] to be gone, 2..3, so tape 1 leaves 3..6; x[0] comes
  // back 6..7, tape 1 7..10.
  EXPECT_DOUBLE_EQ(
      sound(chain, program, {BytesPerSecond(10), BytesPerSecond(10), Bytes(35)}).time.count(), 12);
}

// Tape 2 is copied in 4..14. Tape 1 would be next, while backward 4 runs, 4..19, which leaves no
// room for it next to tapes 2 and 3; so it is copied in 19..29.
TEST(ReplayCopies, CopyInWaitsForTheEndOfAnActionToo) {
  const chain::Chain chain =
      chain_of(0, {{1, 1, 0, 10}, {1, 1, 0, 10}, {1, 1, 0, 10}, {1, 15, 0, 10, 0, 0, 100}});
  const auto program = stage(1, 4,
                             "forward_tape 1, forward_tape 2, offload_tape 1, forward_tape 3, "
                             "offload_tape 2, forward_tape 4",
                             "prefetch_tape 2, prefetch_tape 1, backward 4, backward 3, "
                             "backward 2, backward 1");
  const Replay replay = sound(chain, program, {BytesPerSecond(100), BytesPerSecond(1), Bytes(135)});
  EXPECT_EQ(replay.peak, Bytes(2 * 10 + 100 + 10));
  EXPECT_DOUBLE_EQ(replay.time.count(), 31);  // backward 2 reads x[1], in tape 1
  // With room for it, it is there at 24.
  const Replay roomy = sound(chain, program, {BytesPerSecond(100), BytesPerSecond(1), Bytes(140)});
  EXPECT_EQ(roomy.peak, Bytes(140));
  EXPECT_DOUBLE_EQ(roomy.time.count(), 26);
}

TEST(ReplayCopies, NeedTheirLanes) {
  const auto program = stage(1, 3, kCopyForward, kCopyBackward);
  EXPECT_EQ(fault_of(tens(), program),
            "action 1 of the forward part, offload 0: there is no copy lane to the offload tier");
  EXPECT_EQ(
      fault_of(tens(), program, {BytesPerSecond(1), BytesPerSecond(0), {}}),
      "action 1 of the backward part, prefetch 1: there is no copy lane from the offload tier");
}

}  // namespace
}  // namespace trireme::simulate
