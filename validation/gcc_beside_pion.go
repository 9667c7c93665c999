// Runs pion's GCC on arrivals that a file lists, in a clock of its own; `validation.gcc_beside_pion` puts it
// into pion's package as a test, since the parts are private. Of each report it writes when it came, how often
// its packets were an overuse, and the rate that pion has for what arrived.

package gcc

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/interceptor/internal/cc"
)

func TestBesideLasthop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrivals, err := os.Open(os.Getenv("ARRIVALS"))
		if err != nil {
			t.Fatal(err)
		}
		decisions, err := os.Create(os.Getenv("DECISIONS"))
		if err != nil {
			t.Fatal(err)
		}
		defer decisions.Close()
		start := time.Now()
		at := func(ns int64) time.Time { return start.Add(time.Duration(ns)) }
		rate := newRateController(time.Now, 150_000, 150_000, 1_500_000, func(DelayStats) {})
		over := 0
		threshold := newAdaptiveThreshold()
		if os.Getenv("GAINS") == "webrtc" {
			threshold.overuseCoefficientUp, threshold.overuseCoefficientDown = 0.0087, 0.039
		}
		detector := newOveruseDetector(threshold, 10*time.Millisecond, func(stats DelayStats) {
			if stats.Usage == usageOver {
				over++
			}
			rate.onDelayStats(stats)
		})
		slope := newSlopeEstimator(newKalman(), detector.onDelayStats)
		delays, rates := make(chan []cc.Acknowledgment), make(chan []cc.Acknowledgment)
		go newArrivalGroupAccumulator().run(delays, slope.onArrivalGroup)
		go newRateCalculator(500*time.Millisecond).run(rates, rate.onReceivedRate)
		var reported []cc.Acknowledgment
		lines := bufio.NewScanner(arrivals)
		for lines.Scan() {
			// A packet: sent, arrived, bytes. A report: when it came, RTT, 0.
			var first, second int64
			var bytes int
			if _, err := fmt.Sscan(lines.Text(), &first, &second, &bytes); err != nil {
				t.Fatal(err)
			}
			if bytes > 0 {
				packet := cc.Acknowledgment{Size: bytes, Departure: at(first), Arrival: at(second)}
				reported = append(reported, packet)
				continue
			}
			time.Sleep(time.Until(at(first)))
			rate.updateRTT(time.Duration(second))
			over = 0
			rates <- reported
			synctest.Wait()
			delays <- reported
			synctest.Wait()
			fmt.Fprintln(decisions, first, over, rate.latestReceivedRate)
			reported = nil
		}
		close(delays)
		close(rates)
	})
}
