#include "mercer/companion.hpp"

#include <chrono>
#include <thread>

#include "mercer/pause.hpp"

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kPatience{2000};
constexpr std::chrono::milliseconds kRest{100};  // of all companions, after one that was slow
constexpr int kPauses = 256;                     // between looks at the clock
constexpr uint32_t kEnd = ~uint32_t{0};

// Until when no companion is asked to come: beside busy processes it would come and go.
std::atomic<Clock::rep> rests_until{0};

}  // namespace

Companion::Companion(bool is_wanted, Work work, void* context) : work_(work), context_(context) {
    if (is_wanted && Clock::now().time_since_epoch().count() >= rests_until.load()) aside_.emplace(serve, this);
}

Companion::~Companion() { dismiss(); }

bool Companion::is_here() const { return is_here_.load(std::memory_order_acquire); }

void Companion::ask() { asked_.number.store(++n_asked_, std::memory_order_release); }

const void* Companion::answer() {
    if (!has_answered_in_time()) {
        while (!has_answered()) std::this_thread::yield();
        dismiss();
        rests_until.store((Clock::now() + kRest).time_since_epoch().count());
    }
    return answered_.content;
}

void Companion::serve(void* context, int64_t) { static_cast<Companion*>(context)->stay(); }

void Companion::stay() {
    is_here_.store(true, std::memory_order_release);
    for (uint32_t seen = 0;;) {
        uint32_t number = asked_.number.load(std::memory_order_acquire);
        for (int i = 0; number == seen; number = asked_.number.load(std::memory_order_acquire), ++i) {
            pause();
            if (i % kPauses == kPauses - 1) std::this_thread::yield();
        }
        if (number == kEnd) return;
        work_(context_, asked_.content, answered_.content);
        answered_.number.store(seen = number, std::memory_order_release);
    }
}

bool Companion::has_answered() const { return answered_.number.load(std::memory_order_acquire) == n_asked_; }

bool Companion::has_answered_in_time() const {
    Clock::time_point until{};
    for (int i = 0; !has_answered(); ++i) {
        pause();
        if (i % kPauses != kPauses - 1) continue;
        if (until == Clock::time_point{}) until = Clock::now() + kPatience;
        if (Clock::now() >= until) return false;
    }
    return true;
}

void Companion::dismiss() {
    asked_.number.store(kEnd, std::memory_order_release);
    aside_.reset();
    is_here_.store(false, std::memory_order_relaxed);
}

}  // namespace mercer
