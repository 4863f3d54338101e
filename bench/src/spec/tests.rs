use super::*;

const WRITE_BW: Test = Test::new(Op::Write, Metric::Bandwidth);
const SEND_BW: Test = Test::new(Op::Send, Metric::Bandwidth);

#[test]
fn defaults_are_perftests() {
    let spec = Spec::new(WRITE_BW);
    assert_eq!(
        (spec.iters, spec.size, spec.tx_depth, spec.cq_mod),
        (5000, 65_536, 128, 1)
    );
    let spec = Spec::new(SEND_BW);
    assert_eq!((spec.iters, spec.rx_depth), (1000, 512));
    let spec = Spec::new(Test::new(Op::Read, Metric::Latency));
    assert_eq!(
        (spec.iters, spec.size, spec.tx_depth, spec.rx_depth),
        (1000, 2, 1, 1)
    );
    assert_eq!(Spec::new(Test::new(Op::Atomic, Metric::Bandwidth)).size, 8);
}

#[test]
fn depths_are_clamped_to_the_iterations() {
    let mut spec = Spec {
        iters: 5,
        ..Spec::new(SEND_BW)
    };
    spec.resolve_depths(None, None, None);
    assert_eq!((spec.tx_depth, spec.rx_depth), (5, 6));
    spec.duration = Some(Span {
        total: Duration::from_secs(4),
        margin: Duration::from_secs(1),
    });
    spec.iters = 0;
    spec.resolve_depths(None, Some(31), None);
    assert_eq!((spec.tx_depth, spec.rx_depth), (128, 31));
}

#[test]
fn moderation_follows_size_list_and_depth() {
    let moderation = |size, all_sizes, post_list, tx, asked| {
        let mut spec = Spec {
            size,
            all_sizes,
            post_list,
            ..Spec::new(WRITE_BW)
        };
        spec.resolve_depths(tx, None, asked);
        spec.cq_mod
    };
    assert_eq!(moderation(8192, false, 1, None, None), 100);
    assert_eq!(moderation(8193, false, 1, None, None), 1);
    assert_eq!(moderation(LARGEST_OF_ALL, true, 1, None, None), 100);
    assert_eq!(moderation(64, false, 1, Some(16), None), 16);
    assert_eq!(moderation(65_536, false, 8, None, None), 8);
    assert_eq!(moderation(65_536, false, 1, None, Some(50)), 50);
}

#[test]
fn tests_are_found_by_either_name() {
    for test in Test::ALL {
        assert_eq!(Test::from_name(test.name()), Some(test));
        assert_eq!(Test::from_name(&test.perftest_name()), Some(test));
    }
    assert_eq!(
        Test::from_name("ib_write-bw").map(Test::name),
        Some("write-bw")
    );
    assert_eq!(Test::from_name("write_bw"), None);
    assert_eq!(Test::from_name("raw_ethernet_bw"), None);
}

#[test]
fn all_sizes_are_twenty_three() {
    let spec = Spec {
        all_sizes: true,
        ..Spec::new(WRITE_BW)
    };
    assert_eq!(spec.sizes().len(), 23);
    assert_eq!(spec.sizes().first(), Some(&2));
    assert_eq!(spec.sizes().last(), Some(&LARGEST_OF_ALL));
}

#[test]
fn default_run_needs_no_options() {
    for test in Test::ALL {
        assert_eq!(Spec::new(test).args(), [test.name()]);
    }
    let spec = Spec {
        lab: true,
        role: Role::Client {
            host: "127.0.0.1".into(),
        },
        ..Spec::new(WRITE_BW)
    };
    assert_eq!(spec.command_line(), "roce write-bw --lab");
    let half = spec.server_half();
    assert_eq!(
        half.command_line(),
        "roce write-bw --bind_source_ip 127.0.0.1"
    );
}

#[test]
fn peak_is_for_short_counted_runs_of_a_sender() {
    let client = Role::Client { host: "h".into() };
    let spec = Spec {
        role: client.clone(),
        ..Spec::new(WRITE_BW)
    };
    assert!(spec.measures_peak());
    assert!(
        !Spec {
            iters: PEAK_LIMIT + 1,
            ..spec.clone()
        }
        .measures_peak()
    );
    assert!(!Spec::new(SEND_BW).measures_peak());
    assert!(
        Spec {
            bidirectional: true,
            ..Spec::new(SEND_BW)
        }
        .measures_peak()
    );
    assert!(
        Spec {
            role: client,
            ..Spec::new(SEND_BW)
        }
        .measures_peak()
    );
}

#[test]
fn receivers_of_unreliable_senders_have_deep_queues() {
    let depth = |service, iters, asked| {
        let mut spec = Spec {
            service,
            iters,
            ..Spec::new(SEND_BW)
        };
        spec.resolve_depths(None, asked, None);
        spec.rx_depth
    };
    assert_eq!(depth(Service::Ud, 1000, None), 1000);
    assert_eq!(depth(Service::Uc, 99_999, None), 16_000);
    assert_eq!(depth(Service::Uc, 99_999, Some(64)), 64);
    assert_eq!(depth(Service::Rc, 99_999, None), 512);
    let mut imm = Spec::new(WRITE_BW);
    imm.pace.with_imm = true;
    imm.resolve_depths(None, None, None);
    assert_eq!(imm.rx_depth, 512);
}

#[test]
fn moderation_of_datagrams_and_events_ignores_the_size() {
    let mut spec = Spec {
        service: Service::Ud,
        ..Spec::new(SEND_BW)
    };
    spec.resolve_depths(None, None, None);
    assert_eq!(spec.cq_mod, 100);
    spec.service = Service::Rc;
    spec.qp.events = true;
    spec.resolve_depths(None, None, None);
    assert_eq!(spec.cq_mod, 100);
    spec.resolve_depths(None, Some(20), None);
    assert_eq!(spec.cq_mod, 20);
}

#[test]
fn datagrams_fit_the_path() {
    let mut spec = Spec {
        service: Service::Ud,
        ..Spec::new(SEND_BW)
    };
    assert_eq!((spec.fit_path(Mtu::B1024), spec.size), (Ok(None), 1024));
    assert_eq!((spec.size, spec.fit_path(Mtu::B4096)), (1024, Ok(None)));
    spec.all_sizes = true;
    spec.size = LARGEST_OF_ALL;
    let words = spec.fit_path(Mtu::B256).unwrap().unwrap();
    assert!(words.contains("Max msg size in UD is MTU 256"));
    assert_eq!(spec.sizes(), [2, 4, 8, 16, 32, 64, 128, 256]);
    let asked = Spec {
        size: 2048,
        size_given: true,
        service: Service::Ud,
        ..Spec::new(SEND_BW)
    };
    let error = asked.clone().fit_path(Mtu::B1024).unwrap_err();
    assert!(error.contains("-s 1024 or less"), "{error}");
    let connected = Spec {
        service: Service::Uc,
        ..asked
    };
    assert_eq!(connected.clone().fit_path(Mtu::B1024), Ok(None));
}

#[test]
fn reversal_turns_the_traffic_and_not_the_roles() {
    let mut server = Spec::new(WRITE_BW);
    assert!(!server.is_active() && !server.is_requester());
    server.pace.reversed = true;
    assert!(server.is_active() && server.is_requester() && !server.is_client());
    let mut client = Spec {
        role: Role::Client { host: "h".into() },
        ..Spec::new(SEND_BW)
    };
    client.pace.reversed = true;
    assert!(!client.is_requester() && client.is_receiver() && client.is_client());
    assert!(!client.measures_peak());
}
