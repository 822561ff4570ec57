// SPDX-License-Identifier: Apache-2.0
// A scraper: parses a page into a tree, counts its links, and drops the tree.
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

struct Element {
    tag: String,
    text: String,
    parent: Option<Rc<Element>>,
    children: RefCell<Vec<Rc<Element>>>,
}

#[inline(never)]
fn append_element(parent: &Rc<Element>, tag: &str, text: &str) -> Rc<Element> {
    let element = Rc::new(Element { tag: tag.to_owned(), text: text.to_owned(), parent: Some(parent.clone()), children: RefCell::default() });
    parent.children.borrow_mut().push(element.clone());
    element
}

#[inline(never)]
fn compose_page(number: u32) -> String {
    let mut page = String::new();
    for section in 0..5 {
        page.push_str("<section>");
        for item in 0..3 {
            page.push_str(&format!("<a>link {item} in section {section} of page {number} {}</a>", "lorem ipsum dolor sit amet ".repeat(12)));
        }
        page.push_str("</section>");
    }
    page
}

#[inline(never)]
fn parse_page(page: &str) -> Rc<Element> {
    let root = Rc::new(Element { tag: "html".into(), text: String::new(), parent: None, children: RefCell::default() });
    let mut open = vec![root.clone()];
    for piece in page.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        if tag.starts_with('/') {
            open.pop();
        } else {
            let element = append_element(open.last().unwrap(), tag, text);
            open.push(element);
        }
    }
    root
}

fn depth(element: &Element) -> usize {
    element.parent.as_deref().map_or(0, |parent| 1 + depth(parent))
}

#[inline(never)]
fn count_links(element: &Element) -> usize {
    let own = usize::from(element.tag == "a" && !element.text.is_empty() && depth(element) == 2);
    own + element.children.borrow().iter().map(|child| count_links(child)).sum::<usize>()
}

fn main() {
    let start = Instant::now();
    let seconds: f64 = std::env::args().nth(1).map_or(4.0, |text| text.parse().unwrap());
    let mut number = 0;
    while start.elapsed().as_secs_f64() < seconds {
        let page = compose_page(number);
        let tree = parse_page(&page);
        assert_eq!(count_links(&tree), 15);
        number += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
}
