// Bindings of string kernels.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"

namespace mercer {
namespace {

using Letters = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Strings as rows of letters. It keeps the arrays alive and validates them once.
class Strings {
  public:
    Strings(Letters letters, ConstIndices starts, int64_t n_letters)
        : letters_(letters), starts_(starts), n_letters_(n_letters) {
        require(starts.shape(0) > 0 && starts.data()[0] == 0, "starts must begin with 0");
        for (std::size_t i = 1; i < starts.shape(0); ++i)
            require(starts.data()[i - 1] <= starts.data()[i], "starts must not decrease");
        require(starts.data()[starts.shape(0) - 1] == static_cast<int64_t>(letters.shape(0)),
                "starts must end with the number of letters");
        for (std::size_t k = 0; k < letters.shape(0); ++k)
            require(letters.data()[k] >= 0 && letters.data()[k] < n_letters,
                    "letters must be numbered below n_letters");
    }

    StringsView rows(const ConstIndices& chosen) const {
        const auto count = static_cast<int64_t>(chosen.shape(0)), n = static_cast<int64_t>(starts_.shape(0)) - 1;
        check_indices(chosen.data(), count, n);
        return {letters_.data(), starts_.data(), chosen.data(), count, n_letters_};
    }

  private:
    Letters letters_;
    ConstIndices starts_;
    int64_t n_letters_;
};

void require_shape(const Matrix& out, const StringsView& left, const StringsView& right) {
    require(static_cast<int64_t>(out.shape(0)) == left.count && static_cast<int64_t>(out.shape(1)) == right.count,
            "out must have a row per left row and a column per right row");
}

void edit_distances(const std::string& isa, const Strings& strings, ConstIndices left_rows, ConstIndices right_rows,
                    Matrix out) {
    const StringsView left = strings.rows(left_rows), right = strings.rows(right_rows);
    require_shape(out, left, right);
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.edit_distances(left, right, out.data(), right.count);
}

void subsequences(const std::string& isa, const Strings& strings, ConstIndices left_rows, ConstIndices right_rows,
                  int64_t length, double decay, Matrix out) {
    const StringsView left = strings.rows(left_rows), right = strings.rows(right_rows);
    require_shape(out, left, right);
    require(length >= 1, "length must be at least 1");
    require(decay > 0.0 && decay <= 1.0, "decay must be above 0 and at most 1");
    const Implementation& native = implementation(isa);
    const ReleasedGil released;
    native.subsequences(left, right, length, decay, out.data(), right.count);
}

}  // namespace

void bind_strings(nb::module_& m) {
    nb::class_<Strings>(m, "Strings")
        .def(nb::init<Letters, ConstIndices, int64_t>(), nb::arg("letters").noconvert(), nb::arg("starts").noconvert(),
             nb::arg("n_letters"));
    m.def("edit_distances", &edit_distances, nb::arg("isa"), nb::arg("strings"), nb::arg("left_rows").noconvert(),
          nb::arg("right_rows").noconvert(), nb::arg("out").noconvert());
    m.def("subsequences", &subsequences, nb::arg("isa"), nb::arg("strings"), nb::arg("left_rows").noconvert(),
          nb::arg("right_rows").noconvert(), nb::arg("length"), nb::arg("decay"), nb::arg("out").noconvert());
}

}  // namespace mercer
