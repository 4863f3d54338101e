use super::*;
use crate::link::XskLink;
use crate::program::Target;
use crate::sandbox::in_a_network;

fn netdev(netlink: &mut Netlink) -> Netdev {
    Netdev::named("near", netlink).unwrap()
}

fn config() -> Config {
    Config::new("near")
}

#[test]
fn a_foreign_program_is_named_and_displaced_only_when_told() {
    in_a_network(|| {
        let mut netlink = Netlink::new().unwrap();
        let code = program::code(Target::Verdict(2));
        let foreign = bpf::load_xdp("foreigner", &code, true).unwrap();
        let index = netdev(&mut netlink).index;
        let link = bpf::attach_xdp(foreign.as_fd(), index, MODE_GENERIC).unwrap();
        let place = netdev(&mut netlink).program.unwrap();
        assert_eq!(place.mode, Mode::Generic);

        let error = XskLink::open(&config()).unwrap_err().to_string();
        let words = format!(
            "interface near has the XDP program \"foreigner\" ({}) in place",
            place.id
        );
        assert!(
            error.contains(&words) && error.contains("--replace-xdp"),
            "{error}"
        );
        let still = netdev(&mut netlink).program;
        assert_eq!(still, Some(place), "it was left alone");

        let replacing = Config {
            replace_program: true,
            ..config()
        };
        let ours = XskLink::open(&replacing).unwrap();
        assert_ne!(netdev(&mut netlink).program.unwrap().id, place.id);
        drop(ours);
        assert_eq!(netdev(&mut netlink).program, None);
        drop(link);
    });
}

#[test]
fn links_on_two_queues_share_the_program_until_the_last_is_gone() {
    in_a_network(|| {
        let mut netlink = Netlink::new().unwrap();
        let driver = |queue| Config {
            queue,
            mode: Some(Mode::Driver),
            ..config()
        };
        let first = XskLink::open(&driver(0)).unwrap();
        let id = netdev(&mut netlink).program.unwrap().id;
        let second = XskLink::open(&driver(1)).unwrap();
        assert!(
            second.describe().contains("as another process of roce"),
            "{}",
            second.describe()
        );
        let own = format!(
            "in use by {}",
            std::fs::read_to_string("/proc/self/comm")
                .unwrap()
                .trim_end()
        );
        let third = XskLink::open(&driver(1)).unwrap_err().to_string();
        assert!(
            third.contains("queue 1 of interface near is ") && third.contains(&own),
            "{third}"
        );
        drop(first);
        assert_eq!(netdev(&mut netlink).program.map(|place| place.id), Some(id));
        // Its queue can be had again at once, although the kernel takes a moment to let go.
        let again = XskLink::open(&driver(0)).unwrap();
        drop(second);
        drop(again);
        assert_eq!(netdev(&mut netlink).program, None);
    });
}
