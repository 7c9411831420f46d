// The terms that a pass sums over the features of two rows: products, and terms of distances such as L1 and
// chi-squared.
//
// Every distance is computed as norm + norm - 2 shared. A pass over sparse rows visits only features that are nonzero
// in both rows; it sums the shared terms, and the norms are sums over each row alone. A pass over dense rows sums the
// terms of the distance itself; it uses norms of 0 and shared = -1/2 of that sum. The same formula therefore serves
// dense and sparse rows.
#pragma once

#include "gram/program.hpp"
#include "gram/simd.hpp"

namespace mercer::MERCER_ISA {

// sum + the term of one feature of two dense rows.
template <class Real, Pairing kPairing>
MERCER_INLINE VecOf<Real> add_term(VecOf<Real> sum, Real left, VecOf<Real> b) {
    using V = VecOf<Real>;
    if constexpr (kPairing == Pairing::product) {
        return sum + left * b;
    } else {
        const V a = fill(left), away = a - b;
        if constexpr (kPairing == Pairing::squared_difference) return sum + away * away;
        if constexpr (kPairing == Pairing::l1) return sum + max(away, -away);
        if constexpr (kPairing == Pairing::hamming) return sum + (a != b ? V{} + 1 : V{});
        if constexpr (kPairing == Pairing::minimum) return sum + min(a, b);
        if constexpr (kPairing == Pairing::sum) return sum + (a + b);
        if constexpr (kPairing == Pairing::chi2) {
            const V both = a + b;
            return sum + (both != V{} ? away * (away / both) : V{});
        }
    }
}

// The shared term of one feature of two sparse rows, for vectors or scalars. It is 0 if a or b is 0.
template <Pairing kPairing, class V>
MERCER_INLINE V shared_term(V a, V b) {
    if constexpr (kPairing == Pairing::minimum) return min(a, b);
    if constexpr (kPairing == Pairing::l1) return max(min(a, b), V{}) - min(max(a, b), V{});
    if constexpr (kPairing == Pairing::hamming) {
        const V same = a == b ? V{} + 1.0f : V{} + 0.5f;
        return a == V{} ? V{} : (b == V{} ? V{} : same);
    }
    if constexpr (kPairing == Pairing::chi2) {
        const V both = a + b;  // symmetric in a and b, bit by bit
        return both != V{} ? 2.0f * min(a, b) * (max(a, b) / both) : V{};
    }
    return V{};
}

// norm + the term of one feature in the norm of a sparse row.
template <class Real, Pairing kPairing>
MERCER_INLINE Real add_to_norm(Real norm, Real a) {
    if constexpr (kPairing == Pairing::product) return multiply_add(a, a, norm);
    if constexpr (kPairing == Pairing::l1) return norm + (a < 0 ? -a : a);
    if constexpr (kPairing == Pairing::hamming) return norm + (a != 0 ? 1 : 0);
    return norm + a;
}

// Calls use.template operator()<pairing>(): turns the run-time value into a template argument.
template <class Use>
MERCER_INLINE void with_pairing(Pairing pairing, Use use) {
    switch (pairing) {
        case Pairing::product:
            return use.template operator()<Pairing::product>();
        case Pairing::squared_difference:
            return use.template operator()<Pairing::squared_difference>();
        case Pairing::l1:
            return use.template operator()<Pairing::l1>();
        case Pairing::chi2:
            return use.template operator()<Pairing::chi2>();
        case Pairing::hamming:
            return use.template operator()<Pairing::hamming>();
        case Pairing::minimum:
            return use.template operator()<Pairing::minimum>();
        case Pairing::sum:
            return use.template operator()<Pairing::sum>();
    }
}

}  // namespace mercer::MERCER_ISA
