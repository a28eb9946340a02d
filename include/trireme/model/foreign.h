// Layers written in another language (Python): a C++ exception must not pass through the language's
// frames, and an error of the language means nothing to C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::model {

/// Leaves a layer's forward when a retape has all it needs. No error: nothing that catches errors
/// stops it.
struct EarlyEnd {};

/// While an object lives, early ends on this thread leave the operation that saved the last tensor
/// as what `thrower` throws, which passes through the language's frames. A layer has one around its
/// call of the language, catches there what comes back, and throws EarlyEnd in its place.
class EarlyEndScope {
 public:
  explicit EarlyEndScope(void (*thrower)());
  ~EarlyEndScope();
  EarlyEndScope(const EarlyEndScope&) = delete;
  EarlyEndScope& operator=(const EarlyEndScope&) = delete;

 private:
  void (*enclosing_)();
};

/// Throws as this thread's innermost EarlyEndScope says, EarlyEnd where there is none.
[[noreturn]] void end_early();

/// What a language that may run inside of backwards needs there.
struct ForeignBackwards {
  /// Called inside of a handler with what leaves a backward, on the thread that began it. For an
  /// error of the language, which it clears, it throws an InputError or c10::OutOfMemoryError; for
  /// any other it returns.
  void (*convert_error)();
};

/// From now on, in the whole process, there is such a language. Its code may use the default
/// generators in a backward (torch.utils.checkpoint runs a forward again there), so that backwards
/// run one at a time, each with a DefaultGenerator. Null: there is none.
void expect_foreign_backwards(const ForeignBackwards* language);
/// The language that is expected; null if none is.
const ForeignBackwards* foreign_backwards();

}  // namespace trireme::model
