// Quantities with a unit: bytes, seconds, bytes per second, joules, watts,
// floating-point operations per second and per joule. Base units only; prefixes exist only in text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace trireme {

/// A number with a unit. Built explicitly, added to and compared with its own kind only.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}

  constexpr Rep count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  // <=> of doubles has four outcomes, which compilers tell apart with branches where < is a single
  // instruction; loops of the planner compare times.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.count_ < b.count_; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.count_ > b.count_; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.count_ <= b.count_; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.count_ >= b.count_; }

  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.count_); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    return Quantity(a.count_ * factor);
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) {
    return Quantity(a.count_ * factor);
  }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) {
    return Quantity(a.count_ / divisor);
  }
  /// The ratio of two quantities, without a unit.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }

 private:
  Rep count_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using Joules = Quantity<struct JoulesTag, double>;
using Watts = Quantity<struct WattsTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using FlopsPerJoule = Quantity<struct FlopsPerJouleTag, double>;

/// A clock's duration in seconds.
constexpr Seconds to_seconds(std::chrono::duration<double> time) {
  return Seconds(time.count());
}

/// Time that `size` takes at `rate`.
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(static_cast<double>(size.count()) / rate.count());
}

/// Energy that `power` takes in `time`.
constexpr Joules operator*(Watts power, Seconds time) {
  return Joules(power.count() * time.count());
}

}  // namespace trireme
