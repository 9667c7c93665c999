//! Durations of 123 PPDUs by the clauses, and what `WifiPhy::CalculateTxDuration` of ns-3.44 says of them.

use super::*;

/// 20 us of preamble, 16 service bits and 6 of tail in symbols of 4 us (clause 17.4.3): 1538 B at 54 Mbit/s are 57.1
/// symbols of 216 bits, at 9 Mbit/s 342.4 of 36, an ACK at 24 Mbit/s is 1.4 of 96; at 2.4 GHz 6 us more.
#[test]
fn frames_before_802_11n() {
    let habits = |band| Habits { coding: Some(Coding::Ldpc), ..Habits::usual(band) };
    let rate = |index| Mode::new(Format::Legacy, (20, 800), (1, index)).unwrap();
    let lasts = |index: u8, octets, band| rate(index).airtime(octets, &habits(band)).0;
    assert_eq!(lasts(7, 1_538, Band::Five), 252_000);
    assert_eq!(lasts(7, 1_538, Band::Two), 258_000);
    assert_eq!(lasts(1, 1_538, Band::Five), 1_392_000);
    assert_eq!(lasts(4, 14, Band::Five), 28_000);
    for (index, mbit) in
        [6, 9, 12, 18, 24, 36, 48, 54].into_iter().zip(0..).map(|(mbit, index)| (index, mbit))
    {
        assert_eq!(rate(index).rate().0, mbit * 1_000_000);
        assert_eq!(rate(index).reference(), mbit);
    }
    assert!(Mode::new(Format::Legacy, (40, 800), (1, 0)).is_err());
    assert!(Mode::new(Format::Legacy, (20, 800), (2, 0)).is_err());
}

/// HT mixed format: MCS, MHz, guard interval in ns, streams, octets, band in GHz, data bits per symbol, encoders,
/// symbols
/// with convolutional code, microseconds by the standard and in ns-3.44.
const HT: &str = "
0 20 800 1 14 5 26 1 6 60 60
0 20 800 1 60 5 26 1 20 116 116
0 20 800 1 1538 5 26 1 475 1936 1936
0 20 400 1 1538 5 26 1 475 1748 1746
0 40 800 1 1538 5 54 1 229 952 952
1 20 800 1 106 5 52 1 17 104 104
1 20 800 1 1538 2 52 1 238 994 994
2 20 800 1 1538 5 78 1 159 672 672
2 20 400 1 1538 5 78 1 159 612 608.4
3 20 800 1 1538 5 104 1 119 512 512
3 40 400 1 3086 5 216 1 115 452 450
4 20 800 1 106 5 156 1 6 60 60
4 20 800 1 26246 5 156 1 1347 5424 5424
5 20 800 1 1538 5 208 1 60 276 276
5 40 800 1 64846 5 432 1 1201 4840 4840
6 20 800 1 1538 5 234 1 53 248 248
6 40 400 1 64846 5 486 1 1068 3884 3880.8
7 20 800 1 106 5 260 1 4 52 52
7 20 800 1 1538 5 260 1 48 228 228
7 20 800 1 1538 2 260 1 48 234 234
7 20 400 1 1538 5 260 1 48 212 208.8
7 20 400 1 1538 2 260 1 48 218 214.8
7 20 800 1 43230 5 260 1 1331 5360 5360
7 20 400 1 47862 5 260 1 1473 5340 5338.8
7 40 800 1 1538 5 540 1 23 128 128
7 40 400 1 1538 5 540 1 23 120 118.8
7 40 400 1 64846 5 540 1 961 3496 3495.6
0 20 800 2 1538 5 52 1 238 992 992
7 20 800 2 1538 5 520 1 24 136 136
7 20 400 2 1538 2 520 1 24 134 132.4
7 20 800 2 64846 5 520 1 998 4032 4032
7 40 800 2 64846 5 1080 1 481 1964 1964
7 40 400 2 64846 5 1080 1 481 1772 1771.6
0 20 800 3 1538 5 78 1 159 684 684
4 40 400 3 64846 5 972 1 534 1972 1970.4
5 40 800 3 64846 5 1296 2 401 1652 1652
7 20 800 3 1538 5 780 1 16 112 112
7 40 400 3 64846 5 1620 2 321 1204 1203.6
5 40 400 4 64846 5 1728 2 301 1132 1131.6
7 40 800 4 64846 5 2160 2 241 1012 1012
7 40 400 4 64846 5 2160 2 241 916 915.6
";

/// VHT, with the same columns.
const VHT: &str = "
0 20 800 1 14 5 26 1 6 64 60
0 20 800 1 1542 5 26 1 476 1944 1940
0 20 400 1 1542 5 26 1 476 1756 1749.6
0 40 800 1 1542 5 54 1 229 956 952
0 80 800 1 1542 5 117 1 106 464 460
1 20 800 1 108 5 52 1 18 112 108
2 20 800 1 1542 5 78 1 159 676 672
3 40 800 1 30878 5 216 1 1144 4616 4612
4 80 400 1 64846 5 702 1 740 2704 2700
5 20 800 1 1542 5 208 1 60 280 276
5 40 400 1 64846 5 432 1 1201 4364 4359.6
6 80 800 1 98814 5 1053 1 751 3044 3040
7 20 800 1 1542 5 260 1 48 232 228
7 80 800 1 1542 5 1170 1 11 84 80
7 80 400 1 98814 5 1170 1 676 2476 2469.6
8 20 800 1 108 5 312 1 3 52 48
8 20 800 1 1542 5 312 1 40 200 196
8 20 400 1 52494 5 312 1 1347 4892 4885.2
8 40 800 1 64846 5 648 1 801 3244 3240
8 80 800 1 98814 5 1404 1 564 2296 2292
8 160 400 1 98814 5 2808 2 282 1056 1051.2
9 40 800 1 1542 5 720 1 18 112 108
9 40 400 1 64846 5 720 1 721 2636 2631.6
9 80 800 1 1542 5 1560 1 8 72 68
9 80 400 1 98814 5 1560 1 507 1868 1861.2
9 160 800 1 98814 5 3120 2 254 1056 1052
0 20 800 2 1542 5 52 1 238 996 992
8 20 800 2 64846 5 624 1 832 3372 3368
9 40 400 2 98814 5 1440 1 549 2024 2016.4
9 80 800 2 98814 5 3120 2 254 1060 1056
9 80 400 2 98814 5 3120 2 254 960 954.4
9 160 400 2 98814 5 6240 3 127 504 497.2
9 20 800 3 1542 5 1040 1 12 100 96
7 80 400 3 98814 5 3510 2 226 868 861.6
8 160 800 3 98814 5 8424 4 94 428 424
9 80 400 3 98814 5 4680 3 169 664 656.4
0 80 800 4 1542 5 468 1 27 160 156
7 160 800 4 98814 5 9360 6 85 392 388
8 80 400 4 98814 5 5616 3 141 560 555.6
9 80 400 4 98814 5 6240 3 127 512 505.2
9 160 400 4 98814 5 12480 6 64 284 278.4
";

/// HE of one user: the same without encoders; microseconds with convolutional code, with LDPC, with the usual code and
/// 16 us of
/// nominal padding, and in ns-3.44.
const HE: &str = "
0 20 800 1 14 5 117 2 70.4 70.4 74.4 71.2
0 20 800 1 1542 5 117 106 1484.8 1484.8 1496.8 1485.6
0 20 1600 1 1542 5 117 106 1570.4 1570.4 1582.4 1570.4
0 20 3200 1 1542 5 117 106 1748 1748 1760 1740
0 20 800 1 1542 2 117 106 1490.8 1490.8 1502.8 1491.6
0 40 800 1 1542 5 234 53 764 764 780 764.8
0 80 3200 1 1542 5 490 26 468 468 472 460
0 160 800 1 1542 5 980 13 220 220 232 220.8
1 20 800 1 108 5 234 4 97.6 97.6 113.6 98.4
2 20 800 1 16070 5 351 367 5034.4 5034.4 5042.4 5035.2
3 20 1600 1 1542 5 468 27 432.8 432.8 440.8 432.8
3 40 800 1 46318 5 936 396 5428.8 5428.8 5444.8 5429.6
4 20 800 1 1542 5 702 18 288 288 300 288.8
5 20 800 1 1542 5 936 14 233.6 233.6 237.6 234.4
5 20 3200 1 38598 5 936 330 5332 5332 5348 5324
6 40 3200 1 64846 5 2106 247 4004 4004 4012 3996
7 20 800 1 1542 5 1170 11 192.8 192.8 204.8 193.6
7 20 800 1 57126 5 1170 391 5360.8 5360.8 5372.8 5361.6
7 40 800 1 64846 5 2340 222 3062.4 3062.4 3074.4 3063.2
7 80 800 1 1542 5 4900 3 84 84 96 84.8
8 20 800 1 1542 2 1404 9 171.6 171.6 187.6 172.4
8 80 3200 1 64846 5 5880 89 1476 1476 1480 1468
9 20 800 1 64846 5 1560 333 4572 4572 4584 4572.8
9 40 800 1 108 5 3120 1 56.8 56.8 64.8 57.6
9 80 1600 1 1542 5 6533 2 72.8 87.2 91.2 72.8
10 20 800 1 1542 5 1755 8 152 152 156 152.8
10 80 800 1 266158 5 7350 290 3987.2 3987.2 3999.2 3988
11 20 800 1 64846 5 1950 267 3674.4 3674.4 3678.4 3675.2
11 20 3200 1 64846 5 1950 267 4324 4324 4328 4316
11 40 800 1 64846 5 3900 134 1865.6 1865.6 1869.6 1866.4
11 80 800 1 64846 5 8166 64 913.6 913.6 925.6 914.4
11 160 800 1 395262 5 16333 194 2681.6 2681.6 2693.6 2682.4
0 20 800 2 1542 5 234 53 771.2 771.2 787.2 772.8
7 80 800 2 395262 5 9800 323 4443.2 4443.2 4455.2 4444.8
11 80 800 2 395262 5 16333 194 2688.8 2688.8 2700.8 2690.4
11 160 800 2 395262 5 32666 97 1369.6 1369.6 1385.6 1371.2
11 160 3200 2 395262 5 32666 97 1620 1620 1636 1604
5 20 800 3 1542 5 2808 5 132.8 132.8 140.8 136
11 80 800 3 395262 5 24500 130 1832.8 1832.8 1836.8 1836
9 80 800 4 395262 5 26133 122 1724 1724 1728 1713.6
11 160 800 4 395262 5 65333 49 731.2 731.2 739.2 734.4
";

/// A row of a table as numbers.
fn rows(table: &str) -> Vec<Vec<f64>> {
    let row = |line: &str| line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    table.lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// The mode of the first columns of a row, and the usual habits of its band.
fn mode(format: Format, row: &[f64]) -> (Mode, Habits) {
    let mode = Mode::new(format, (row[1] as u16, row[2] as u16), (row[3] as u8, row[0] as u8)).unwrap();
    (mode, Habits::usual(Band::of(row[5] * 1000.0)))
}

fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

#[test]
fn ht_and_vht_last_as_the_clauses_say() {
    for (format, table) in [(Format::Ht, HT), (Format::Vht, VHT)] {
        for row in rows(table) {
            let (mode, habits) = mode(format, &row);
            let octets = row[4] as u32;
            assert_eq!(f64::from(mode.bits_per_symbol()), row[6], "{row:?}");
            assert_eq!(f64::from(mode.encoders()), row[7], "{row:?}");
            assert_eq!(mode.symbols(octets, &habits).0 as f64, row[8], "{row:?}");
            assert_eq!(mode.airtime(octets, &habits).0, nanos(row[9]), "{row:?}");
            let ns3 = Habits { durations: Durations::Ns3, ..habits };
            assert_eq!(mode.airtime(octets, &ns3).0, nanos(row[10]), "{row:?}");
        }
    }
}

#[test]
fn he_lasts_as_the_clauses_say() {
    for row in rows(HE) {
        let (mode, habits) = mode(Format::He, &row);
        let lasts = |habits: Habits| mode.airtime(row[4] as u32, &habits).0;
        assert_eq!(f64::from(mode.bits_per_symbol()), row[6], "{row:?}");
        let with = |coding| Habits { coding: Some(coding), ..habits };
        assert_eq!(mode.symbols(row[4] as u32, &with(Coding::Bcc)).0 as f64, row[7], "{row:?}");
        assert_eq!(lasts(with(Coding::Bcc)), nanos(row[8]), "{row:?}");
        assert_eq!(lasts(with(Coding::Ldpc)), nanos(row[9]), "{row:?}");
        assert_eq!(lasts(Habits { padding: 16, ..habits }), nanos(row[10]), "{row:?}");
        assert_eq!(lasts(Habits { durations: Durations::Ns3, ..habits }), nanos(row[11]), "{row:?}");
    }
}

/// Every mode there is: 8 by 2 by 2 by 4 of HT, 10 by 2 by 4 by 4 of VHT less five by two guard intervals that do not
/// exist, 12 by 3 by 4 by 4 of HE.
fn all() -> Vec<Mode> {
    let mut modes = Vec::new();
    for format in [Format::Ht, Format::Vht, Format::He] {
        for width in [20, 40, 80, 160] {
            for &guard in format.guards() {
                for streams in 1..=4 {
                    let mcs = 0..=format.highest_mcs();
                    modes
                        .extend(mcs.filter_map(|mcs| Mode::new(format, (width, guard), (streams, mcs)).ok()));
                }
            }
        }
    }
    modes
}

#[test]
fn what_fits_into_a_time_is_the_most_that_does() {
    let modes = all();
    assert_eq!(modes.len(), 128 + 310 + 576);
    for mode in modes {
        for habits in [Habits::usual(Band::Two), Habits::usual(Band::Five)] {
            for padding in [0, 16] {
                let habits = Habits { padding, ..habits };
                for budget in [50, 90, 300, 1_000, 2_960, 5_484] {
                    let budget = micros(budget);
                    let most = mode.octets_within(budget, &habits);
                    assert!(most == 0 || mode.airtime(most, &habits) <= budget, "{mode:?} {budget}");
                    let largest = most == mode.format().largest_psdu();
                    assert!(largest || mode.airtime(most + 1, &habits) > budget, "{mode:?} {budget}");
                }
            }
        }
    }
}

/// The names that the standard's tables give: MCS 7 of HT at 40 MHz with a short guard interval is 150 Mbit/s, MCS 9 of
/// VHT at 80 MHz with two streams 866.7, MCS 11 of HE 1201.
#[test]
fn rates_are_those_of_the_tables() {
    let rate = |format, width, guard, streams, mcs| {
        Mode::new(format, (width, guard), (streams, mcs)).unwrap().rate().0 / 100_000
    };
    assert_eq!(rate(Format::Ht, 20, 800, 1, 7), 650);
    assert_eq!(rate(Format::Ht, 40, 400, 1, 7), 1500);
    assert_eq!(rate(Format::Vht, 80, 400, 2, 9), 8666);
    assert_eq!(rate(Format::He, 80, 800, 2, 11), 12_009);
}

#[test]
fn what_does_not_exist_is_named() {
    let why =
        |format, width, guard, streams, mcs| Mode::new(format, (width, guard), (streams, mcs)).unwrap_err();
    assert_eq!(why(Format::Ht, 80, 800, 1, 0), "802.11n has no channels of 80 MHz");
    assert_eq!(why(Format::Vht, 20, 800, 2, 9), "802.11ac has no MCS 9 at 20 MHz with 2 streams");
    assert_eq!(why(Format::Vht, 160, 1600, 1, 0), "802.11ac has no guard interval of 1.6 us");
    assert_eq!(why(Format::He, 20, 800, 5, 0), "5 streams; 1 to 4 are modelled");
    assert_eq!(why(Format::Ht, 20, 800, 1, 8), "802.11n has no MCS 8 (0 to 7)");
}

/// HE PPDUs end between two symbols of the legacy preamble; a legacy station waits for the later one.
#[test]
fn legacy_stations_are_busy_for_whole_symbols() {
    assert_eq!(Mode::announced(Span(192_800), Band::Five), Span(196_000));
    assert_eq!(Mode::announced(Span(171_600), Band::Two), Span(174_000));
    assert_eq!(Mode::announced(Span(228_000), Band::Five), Span(228_000));
}

/// What the L-SIG field of a PPDU of this length tells, by the clauses of its format (HT 19.3.9.3.5, VHT 21.3.8.2.4, HE
/// SU 27.3.11.5): whole symbols of three octets, less three; HE takes two more away, so that receivers know it by the
/// remainder.
fn l_sig_length(format: Format, airtime: Span, band: Band) -> u64 {
    let behind = airtime.0 - 20_000 - if band == Band::Two { 6_000 } else { 0 };
    3 * behind.div_ceil(4_000) - 3 - if format == Format::He { 2 } else { 0 }
}

/// LENGTH by hand: an HT PPDU of 1538 B at MCS 0 lasts 1936 us, which are 479 symbols behind the preamble. One of HE of
/// 192.8 us is told as 127 octets, which leave 1 of three; 5484 us are 1366 symbols, and 4095 octets.
#[test]
fn the_l_sig_field_in_numbers() {
    for (format, ns, band, length) in [
        (Format::Ht, 1_936_000, Band::Five, 1_434),
        (Format::Vht, 228_000, Band::Five, 153),
        (Format::He, 192_800, Band::Five, 127),
        (Format::He, 171_600, Band::Two, 106),
        (Format::Ht, 994_000, Band::Two, 723),
        (Format::Vht, 5_484_000, Band::Five, 4_095),
    ] {
        assert_eq!(l_sig_length(format, Span(ns), band), length);
    }
}

/// Every mode at many sizes: an older station, which takes the field for that of a frame of its own at 6 Mbit/s, hears
/// it for as long as such a frame lasts by clause 17.4.3, which ends with the PPDU or less than a symbol later; and for
/// as long as others call RXTIME.
#[test]
fn older_stations_hear_a_frame_of_their_own() {
    let own = Mode::new(Format::Legacy, (20, 800), (1, 0)).unwrap();
    for mode in all() {
        for band in [Band::Two, Band::Five] {
            let habits = Habits::usual(band);
            for octets in [1, 14, 100, 1_538, 4_000, 20_000, 65_535] {
                let airtime = mode.airtime(octets, &habits);
                if octets > mode.format().largest_psdu() || airtime > micros(5_484) {
                    continue;
                }
                let length = l_sig_length(mode.format(), airtime, band);
                assert!(length <= 4_095, "{mode:?} {octets}");
                let heard = own.airtime(length as u32, &habits);
                assert_eq!(heard, Mode::announced(airtime, band), "{mode:?} {octets}");
                assert!(heard >= airtime && heard.0 - airtime.0 < 4_000, "{mode:?} {octets}");
                let rx_time = (length + 3).div_ceil(3) * 4_000 + 20_000 + band.extension().0;
                assert_eq!(heard.0, rx_time, "{mode:?} {octets}");
            }
        }
    }
}
