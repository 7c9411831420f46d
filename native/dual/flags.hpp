// A boolean flag for each variable. A vector of flags is read at once, in the form that the processor's blend
// instructions need. Counts are multiples of kBlockPadding, and the caller owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

#if defined(__AVX512F__)  // each flag is a bit
MERCER_INLINE Vec choose(__mmask8 flags, Vec yes, Vec no) { return _mm512_mask_blend_pd(flags, no, yes); }
MERCER_INLINE VecOf<float> choose(__mmask16 flags, VecOf<float> yes, VecOf<float> no) {
    return _mm512_mask_blend_ps(flags, no, yes);
}

template <class Real>
class Flags {
  public:
    using Mask = std::conditional_t<sizeof(Real) == sizeof(double), __mmask8, __mmask16>;

    static std::size_t bytes(int64_t count) { return sizeof(Mask) * static_cast<std::size_t>(count / kWidth); }
    explicit Flags(void* memory) : masks_(static_cast<Mask*>(memory)) {}

    void clear(int64_t count) {
        for (int64_t k = 0; k < count / kWidth; ++k) masks_[k] = 0;
    }
    void set(int64_t u, bool flag) {
        Mask& mask = masks_[u / kWidth];
        const int bit = 1 << (u % kWidth);
        mask = static_cast<Mask>(flag ? mask | bit : mask & ~bit);
    }
    bool operator[](int64_t u) const { return (masks_[u / kWidth] >> (u % kWidth)) & 1; }
    MERCER_INLINE Mask from(int64_t u) const { return masks_[u / kWidth]; }  // u is the first variable of a vector

  private:
    static constexpr int64_t kWidth = kLanesOf<Real>;
    Mask* masks_;
};
#else  // each flag is a number whose bits are all 0 or all 1
template <class Mask, class V>
MERCER_INLINE V choose(Mask flags, V yes, V no) {
    return flags ? yes : no;
}

template <class Real>
class Flags {
    using Int = typename Simd<Real>::Int;
    using Whole = decltype(Int{}[0] + Int{}[0]);

  public:
    using Mask = Int;

    static std::size_t bytes(int64_t count) { return sizeof(Whole) * static_cast<std::size_t>(count); }
    explicit Flags(void* memory) : numbers_(static_cast<Whole*>(memory)) {}

    void clear(int64_t count) {
        for (int64_t u = 0; u < count; ++u) numbers_[u] = 0;
    }
    void set(int64_t u, bool flag) { numbers_[u] = flag ? -1 : 0; }
    bool operator[](int64_t u) const { return numbers_[u] != 0; }
    MERCER_INLINE Mask from(int64_t u) const {
        Mask mask;
        __builtin_memcpy(&mask, numbers_ + u, sizeof(Mask));
        return mask;
    }

  private:
    Whole* numbers_;
};
#endif

}  // namespace mercer::MERCER_ISA
